import java.util.Properties;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Sends records, and stays open until its input ends. Arguments: servers, topic, number of records, client id. */
public final class Sender {
    public static void main(String[] arguments) throws Exception {
        Properties config = new Properties();
        config.put("bootstrap.servers", arguments[0]);
        config.put("client.id", arguments[3]);
        try (var producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int i = Integer.parseInt(arguments[2]); i > 0; i--) {
                producer.send(new ProducerRecord<>(arguments[1], new byte[100]));
            }
            producer.flush();
            System.in.read();
        }
    }
}
