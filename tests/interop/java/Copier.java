import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Copies `in` to `out` in transactions until it is killed. Arguments: servers, transactional id.
 *
 * After an abort it continues at the committed offsets. If it cannot abort, it ends: its supervisor starts it again.
 */
public final class Copier {
    private static final Duration POLL = Duration.ofMillis(200);

    private final String name = UUID.randomUUID().toString();
    private final KafkaProducer<byte[], byte[]> producer;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private int number;

    private Copier(String bootstrap, String transactionalId) {
        Properties producing = new Properties();
        producing.put("bootstrap.servers", bootstrap);
        producing.put("transactional.id", transactionalId);
        producing.put("transaction.timeout.ms", "20000");
        producer = new KafkaProducer<>(producing, new ByteArraySerializer(), new ByteArraySerializer());
        Properties consuming = new Properties();
        consuming.put("bootstrap.servers", bootstrap);
        consuming.put("group.id", "copiers");
        consuming.put("enable.auto.commit", "false");
        consuming.put("auto.offset.reset", "earliest");
        consuming.put("isolation.level", "read_committed");
        consuming.put("session.timeout.ms", "6000");
        consuming.put("heartbeat.interval.ms", "1000");
        consuming.put("max.poll.records", "100");
        consumer = new KafkaConsumer<>(consuming, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    public static void main(String[] arguments) {
        try {
            new Copier(arguments[0], arguments[1]).copy();
        } catch (Throwable failed) {
            failed.printStackTrace();
            System.exit(3);
        }
    }

    private void copy() {
        producer.initTransactions();
        consumer.subscribe(List.of("in"));
        while (true) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
            if (records.isEmpty()) {
                continue;
            }
            producer.beginTransaction();
            try {
                produce(records);
                producer.commitTransaction();
            } catch (KafkaException failed) {
                System.err.println("aborting: " + failed);
                producer.abortTransaction();
                rewind();
            }
        }
    }

    private void produce(ConsumerRecords<byte[], byte[]> records) {
        List<Header> headers = new ArrayList<>();
        headers.add(new RecordHeader("transaction", (name + "/" + number++).getBytes()));
        headers.add(new RecordHeader("size", String.valueOf(records.count()).getBytes()));
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            producer.send(new ProducerRecord<>("out", record.partition(), record.key(), record.value(), headers));
            ends.put(new TopicPartition("in", record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
    }

    private void rewind() {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        for (TopicPartition partition : consumer.assignment()) {
            OffsetAndMetadata offset = committed.get(partition);
            consumer.seek(partition, offset == null ? 0 : offset.offset());
        }
    }
}
