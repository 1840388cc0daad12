import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A producer and a consumer as they come, at work until the input ends. Then: how many records were acknowledged, what
 * was read, and every error that either was told, as one line of JSON. Arguments: servers, topic.
 */
public final class Rolling {
    private static final int PAUSE_MS = 2;
    private static final int CATCH_UP_MS = 60_000;

    private final Properties servers = new Properties();
    private final String topic;
    private final ConcurrentLinkedQueue<String> errors = new ConcurrentLinkedQueue<>();
    private final AtomicBoolean stopping = new AtomicBoolean();
    private final AtomicInteger acknowledged = new AtomicInteger();
    private final AtomicInteger wanted = new AtomicInteger(Integer.MAX_VALUE);
    private final List<List<Object>> received = new ArrayList<>();

    private Rolling(String bootstrap, String topic) {
        servers.put("bootstrap.servers", bootstrap);
        this.topic = topic;
    }

    public static void main(String[] arguments) throws Exception {
        Rolling rolling = new Rolling(arguments[0], arguments[1]);
        Thread producing = new Thread(rolling::produce);
        Thread consuming = new Thread(rolling::consume);
        producing.start();
        consuming.start();
        System.out.println("running");
        while (System.in.read() >= 0) {
            continue;
        }
        rolling.stopping.set(true);
        producing.join();
        consuming.join();
        System.out.println(new ObjectMapper().writeValueAsString(Map.of(
            "acknowledged", rolling.acknowledged.get(), "received", rolling.received, "errors", rolling.errors)));
        System.exit(0);
    }

    private void produce() {
        int number = 0;
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(servers, new StringSerializer(), new StringSerializer())) {
            while (!stopping.get()) {
                producer.send(new ProducerRecord<>(topic, "key " + number % 20, String.valueOf(number)), (where, error) -> {
                    if (error == null) {
                        acknowledged.incrementAndGet();
                    } else {
                        errors.add("producer: " + error);
                    }
                });
                number++;
                Thread.sleep(PAUSE_MS);
            }
        } catch (Exception error) {
            errors.add("producer: " + error);
        }
        wanted.set(acknowledged.get());
    }

    private void consume() {
        Properties config = new Properties();
        config.putAll(servers);
        config.put("group.id", topic + "-readers");
        config.put("auto.offset.reset", "earliest");
        long deadline = Long.MAX_VALUE;
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (received.size() < wanted.get() && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    received.add(List.of(record.partition(), record.offset(), Integer.parseInt(record.value())));
                }
                if (deadline == Long.MAX_VALUE && wanted.get() < Integer.MAX_VALUE) {
                    deadline = System.currentTimeMillis() + CATCH_UP_MS;
                }
            }
        } catch (Exception error) {
            errors.add("consumer: " + error);
        }
    }
}
