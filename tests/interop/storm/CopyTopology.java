import java.util.Map;
import java.util.Properties;

import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.kafka.bolt.KafkaBolt;
import org.apache.storm.kafka.bolt.mapper.FieldNameBasedTupleToKafkaMapper;
import org.apache.storm.kafka.bolt.selector.DefaultTopicSelector;
import org.apache.storm.kafka.spout.FirstPollOffsetStrategy;
import org.apache.storm.kafka.spout.KafkaSpout;
import org.apache.storm.kafka.spout.KafkaSpoutConfig;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * From topic to topic through Storm: each value gets its place written behind it. Arguments: servers, from, to.
 * Runs until its input ends.
 */
public final class CopyTopology {
    /** Tuples are acknowledged when Kafka has acknowledged what was made of them. */
    public static final class Stamp extends BaseRichBolt {
        private OutputCollector collector;

        @Override
        public void prepare(Map<String, Object> config, TopologyContext context, OutputCollector collector) {
            this.collector = collector;
        }

        @Override
        public void execute(Tuple tuple) {
            String place = tuple.getIntegerByField("partition") + ":" + tuple.getLongByField("offset");
            String value = tuple.getStringByField("value") + " @ " + place;
            collector.emit(tuple, new Values(tuple.getStringByField("key"), value));
            collector.ack(tuple);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("key", "message"));
        }
    }

    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0];
        KafkaSpoutConfig<String, String> reading = KafkaSpoutConfig.builder(servers, arguments[1])
            .setProp(ConsumerConfig.GROUP_ID_CONFIG, "storm")
            .setFirstPollOffsetStrategy(FirstPollOffsetStrategy.EARLIEST)
            .setProcessingGuarantee(KafkaSpoutConfig.ProcessingGuarantee.AT_LEAST_ONCE)
            .setOffsetCommitPeriodMs(500)
            .build();
        Properties writing = new Properties();
        writing.put("bootstrap.servers", servers);
        writing.put("acks", "all");
        writing.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        writing.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        KafkaBolt<String, String> bolt = new KafkaBolt<String, String>()
            .withProducerProperties(writing)
            .withTopicSelector(new DefaultTopicSelector(arguments[2]))
            .withTupleToKafkaMapper(new FieldNameBasedTupleToKafkaMapper<>());

        TopologyBuilder topology = new TopologyBuilder();
        topology.setSpout("spout", new KafkaSpout<>(reading), 2);
        topology.setBolt("stamp", new Stamp(), 2).shuffleGrouping("spout");
        topology.setBolt("bolt", bolt, 2).shuffleGrouping("stamp");
        try (LocalCluster cluster = new LocalCluster();
             LocalCluster.LocalTopology running = cluster.submitTopology("copy", new Config(), topology.createTopology())) {
            System.out.println("running");
            while (System.in.read() >= 0) {
                continue;
            }
        }
        Runtime.getRuntime().halt(0);
    }
}
