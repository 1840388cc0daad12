// Every request of jolokia.js that Odradek serves: node script.mjs URL. Prints the answers as JSON.
import Jolokia from "jolokia.js"

const LEADERS = "kafka.server:type=ReplicaManager,name=LeaderCount"
const jolokia = new Jolokia({ url: process.argv[2] })
const found = {}

const value = (answer) => (answer.status === 200 ? answer.value : { status: answer.status, type: answer.error_type })
const ask = async (request, options = {}) => {
  const answers = await jolokia.request(request, options)
  return Array.isArray(answers) ? answers.map(value) : value(answers)
}

found.version = (await ask({ type: "version" })).protocol.length > 0
found.read = await ask({ type: "read", mbean: LEADERS, attribute: "Value" })
found.readByGet = await ask({ type: "read", mbean: LEADERS, attribute: "Value" }, { method: "get" })
found.readSeveral = await ask({
  type: "read",
  mbean: "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=orders",
  attribute: ["Count", "EventType"],
})
found.readPattern = await ask({ type: "read", mbean: "kafka.server:type=ReplicaManager,name=L*", attribute: "Value" })
found.search = await ask({ type: "search", mbean: "kafka.log:type=Log,name=Size,topic=orders,*" })
found.search.sort()
found.list = Object.keys(await ask({ type: "list", path: "kafka.cluster/name=InSyncReplicasCount,partition=0,topic=orders,type=Partition" })).sort()
found.missing = await ask({ type: "read", mbean: "kafka.server:type=Nope" })
found.bulk = await ask([
  { type: "read", mbean: LEADERS, attribute: "Value" },
  { type: "search", mbean: "kafka.server:type=Nope" },
  { type: "read", mbean: "kafka.server:type=Nope" },
])
console.log(JSON.stringify(found))
