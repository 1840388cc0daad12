import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.header.Headers;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.Transformation;

/** Reads records as lines of JSON, applies the transform that each line names, and prints the results. */
public class TransformOracle {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final JsonConverter CONVERTER = new JsonConverter();

    public static void main(String[] arguments) throws Exception {
        CONVERTER.configure(Map.of("schemas.enable", "true", "replace.null.with.default", "false"), false);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(MAPPER.writeValueAsString(answer(MAPPER.readTree(line))));
        }
    }

    private static ObjectNode answer(JsonNode asked) {
        ObjectNode answer = MAPPER.createObjectNode();
        try {
            answer.set("record", shown(asked.get("sink").asBoolean() ? applied(asked, sink(asked)) : applied(asked, source(asked))));
        } catch (Exception | StackOverflowError failed) {
            answer.put("error", failed.getClass().getSimpleName() + ": " + failed.getMessage());
        }
        return answer;
    }

    @SuppressWarnings("unchecked")
    private static <R extends ConnectRecord<R>> R applied(JsonNode asked, R record) throws Exception {
        Map<String, String> options = new HashMap<>();
        asked.get("options").fields().forEachRemaining(each -> options.put(each.getKey(), each.getValue().asText()));
        Class<?> type = Class.forName(asked.get("type").asText());
        try (Transformation<R> transform = (Transformation<R>) type.getDeclaredConstructor().newInstance()) {
            transform.configure(options);
            return transform.apply(record);
        }
    }

    private static SourceRecord source(JsonNode asked) {
        SchemaAndValue key = read(asked.get("key")), value = read(asked.get("value"));
        return new SourceRecord(Map.of(), Map.of(), asked.get("topic").asText(), number(asked.get("partition")),
            key.schema(), key.value(), value.schema(), value.value(), time(asked.get("timestamp")), headers(asked));
    }

    private static SinkRecord sink(JsonNode asked) {
        SchemaAndValue key = read(asked.get("key")), value = read(asked.get("value"));
        return new SinkRecord(asked.get("topic").asText(), asked.get("partition").asInt(), key.schema(), key.value(),
            value.schema(), value.value(), asked.get("offset").asLong(), time(asked.get("timestamp")),
            TimestampType.CREATE_TIME, headers(asked));
    }

    private static Integer number(JsonNode node) {
        return node.isNull() ? null : node.asInt();
    }

    private static Long time(JsonNode node) {
        return node.isNull() ? null : node.asLong();
    }

    private static Headers headers(JsonNode asked) {
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode each : asked.get("headers")) {
            headers.add(each.get(0).asText(), read(each.get(1)));
        }
        return headers;
    }

    private static SchemaAndValue read(JsonNode envelope) {
        if (envelope.isNull()) {
            return SchemaAndValue.NULL;
        }
        return CONVERTER.toConnectData("t", envelope.toString().getBytes(StandardCharsets.UTF_8));
    }

    private static JsonNode written(Schema schema, Object value) throws Exception {
        byte[] written = CONVERTER.fromConnectData("t", schema, value);
        return written == null ? MAPPER.nullNode() : MAPPER.readTree(written);
    }

    private static JsonNode shown(ConnectRecord<?> record) throws Exception {
        if (record == null) {
            return MAPPER.nullNode();
        }
        ObjectNode shown = MAPPER.createObjectNode();
        shown.put("topic", record.topic());
        shown.put("partition", record.kafkaPartition());
        shown.put("timestamp", record.timestamp());
        shown.set("key", written(record.keySchema(), record.key()));
        shown.set("value", written(record.valueSchema(), record.value()));
        ArrayNode headers = shown.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(written(header.schema(), header.value()));
        }
        return shown;
    }
}
