import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;

import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What a client does in its life, and what it saw of it, as one line of JSON. Arguments: servers, a name, first ms. */
public final class Script {
    private static final String[] CODECS = {"none", "gzip", "snappy", "lz4", "zstd"};
    private static final int RECORDS = 60;

    private final Properties servers = new Properties();
    private final String topic;
    private final String group;
    private final long beginMs;
    private final Admin admin;
    private final Map<String, Object> seen = new LinkedHashMap<>();

    private Script(String bootstrap, String name, long beginMs) {
        servers.put("bootstrap.servers", bootstrap);
        topic = name + "-orders";
        group = name + "-readers";
        this.beginMs = beginMs;
        admin = Admin.create(servers);
    }

    public static void main(String[] arguments) throws Exception {
        Script script = new Script(arguments[0], arguments[1], Long.parseLong(arguments[2]));
        script.create();
        script.produce();
        script.consume();
        script.lookUp();
        script.share();
        script.administer();
        script.admin.close();
        System.out.println(new ObjectMapper().writeValueAsString(script.seen));
    }

    private void create() throws Exception {
        NewTopic wanted = new NewTopic(topic, 3, (short) 1).configs(Map.of("retention.ms", "86400000"));
        admin.createTopics(List.of(wanted)).all().get();
        seen.put("again", failure(() -> admin.createTopics(List.of(wanted)).all().get()));
        seen.put("partitions", partitions(3));
    }

    /** A broker may hear of it a moment after the controller has said that it is done. */
    private int partitions(int wanted) throws Exception {
        Callable<Integer> count = () -> admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
        while (!failure(count).equals("none") || count.call() != wanted) {
            Thread.sleep(10);
        }
        return wanted;
    }

    private void produce() throws Exception {
        List<List<Object>> places = new ArrayList<>();
        for (String codec : CODECS) {
            try (KafkaProducer<String, String> producer = producer(codec)) {
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (int index = 0; index < RECORDS; index++) {
                    sent.add(producer.send(record(codec, index)));
                }
                for (Future<RecordMetadata> each : sent) {
                    places.add(List.of(each.get().partition(), each.get().offset()));
                }
            }
        }
        seen.put("places", places);
        try (KafkaProducer<String, String> producer = producer("none")) {
            String large = "x".repeat(1_040_000);
            seen.put("too large", failure(() -> producer.send(new ProducerRecord<>(topic, large + large)).get()));
        }
    }

    private KafkaProducer<String, String> producer(String codec) {
        Properties config = with("compression.type", codec, "linger.ms", "20", "max.request.size", "9000000");
        return new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
    }

    private ProducerRecord<String, String> record(String codec, int index) {
        String key = index % 5 == 0 ? null : "key-" + index % 7;
        Integer partition = key == null ? Integer.valueOf(index % 3) : null;
        String value = index % 11 == 0 ? null : codec + " " + index;
        ProducerRecord<String, String> record = new ProducerRecord<>(topic, partition, beginMs + index, key, value);
        if (index % 2 == 0) {
            record.headers().add("codec", codec.getBytes(StandardCharsets.UTF_8)).add("empty", new byte[0]);
        }
        return record;
    }

    private void consume() throws Exception {
        List<List<Object>> found = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.subscribe(List.of(topic));
            while (found.size() < CODECS.length * RECORDS) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    Map<String, String> headers = new TreeMap<>();
                    for (Header header : record.headers()) {
                        headers.put(header.key(), text(header.value()));
                    }
                    List<Object> row = new ArrayList<>(List.of(record.partition(), record.offset()));
                    row.add(text(record.key()));
                    row.add(text(record.value()));
                    row.add(record.timestamp() - beginMs);
                    row.add(headers);
                    found.add(row);
                }
            }
            consumer.commitSync();
            seen.put("group while it reads", described());
        }
        found.sort(Comparator.comparing((List<Object> row) -> (Integer) row.get(0)).thenComparing(row -> (Long) row.get(1)));
        seen.put("records", found);
        seen.put("group afterwards", described());
        seen.put("committed", committed());
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Properties config = with("group.id", group, "auto.offset.reset", "earliest", "enable.auto.commit", "false");
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private String described() throws Exception {
        var description = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        return description.groupState() + " " + description.members().size() + " " + description.partitionAssignor();
    }

    private Map<Integer, Long> committed() throws Exception {
        Map<Integer, Long> offsets = new TreeMap<>();
        admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
            .forEach((partition, offset) -> offsets.put(partition.partition(), offset.offset()));
        return offsets;
    }

    private void lookUp() throws Exception {
        seen.put("earliest", offsets(OffsetSpec.earliest()));
        seen.put("latest", offsets(OffsetSpec.latest()));
        seen.put("at a time", offsets(OffsetSpec.forTimestamp(beginMs + 30)));
        seen.put("of the latest time", offsets(OffsetSpec.maxTimestamp()));
    }

    private Map<Integer, Long> offsets(OffsetSpec which) throws Exception {
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        for (int index = 0; index < 3; index++) {
            asked.put(new TopicPartition(topic, index), which);
        }
        Map<Integer, Long> offsets = new TreeMap<>();
        admin.listOffsets(asked).all().get().forEach((partition, info) -> offsets.put(partition.partition(), info.offset()));
        return offsets;
    }

    /** Two members of one group share the partitions; who leaves gives them back. */
    private void share() {
        try (KafkaConsumer<byte[], byte[]> one = consumer()) {
            one.subscribe(List.of(topic));
            try (KafkaConsumer<byte[], byte[]> other = consumer()) {
                other.subscribe(List.of(topic));
                while (one.assignment().size() + other.assignment().size() != 3 || other.assignment().isEmpty()
                        || one.assignment().isEmpty()) {
                    one.poll(Duration.ofMillis(50));
                    other.poll(Duration.ofMillis(50));
                }
                seen.put("shared", List.of(one.assignment().size() + other.assignment().size()));
            }
            while (one.assignment().size() < 3) {
                one.poll(Duration.ofMillis(50));
            }
            seen.put("alone again", one.assignment().size());
        }
    }

    private void administer() throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        AlterConfigOp longer = new AlterConfigOp(new ConfigEntry("retention.ms", "172800000"), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(longer))).all().get();
        ConfigEntry entry = admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms");
        seen.put("retention", entry.value() + " " + entry.source());
        admin.deleteRecords(Map.of(new TopicPartition(topic, 0), RecordsToDelete.beforeOffset(7))).all().get();
        seen.put("trimmed", offsets(OffsetSpec.earliest()));
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5))).all().get();
        seen.put("grown", partitions(5));
        admin.alterConsumerGroupOffsets(group, Map.of(new TopicPartition(topic, 1), new OffsetAndMetadata(3))).all().get();
        seen.put("set back", committed());
        admin.deleteConsumerGroupOffsets(group, Set.of(new TopicPartition(topic, 1))).all().get();
        seen.put("forgotten", committed());
        admin.deleteConsumerGroups(List.of(group)).all().get();
        seen.put("group gone", failure(() -> admin.describeConsumerGroups(List.of(group)).all().get()));
        admin.deleteTopics(List.of(topic)).all().get();
        Callable<?> describe = () -> admin.describeTopics(List.of(topic)).allTopicNames().get();
        while (failure(describe).equals("none")) {
            Thread.sleep(10);
        }
        seen.put("topic gone", failure(describe));
    }

    private Properties with(String... pairs) {
        Properties config = new Properties();
        config.putAll(servers);
        for (int index = 0; index < pairs.length; index += 2) {
            config.put(pairs[index], pairs[index + 1]);
        }
        return config;
    }

    private static String failure(Callable<?> work) throws Exception {
        try {
            work.call();
            return "none";
        } catch (ExecutionException failed) {
            return failed.getCause().getClass().getSimpleName();
        }
    }

    private static String text(byte[] bytes) {
        return Optional.ofNullable(bytes).map(each -> new String(each, StandardCharsets.UTF_8)).orElse(null);
    }
}
