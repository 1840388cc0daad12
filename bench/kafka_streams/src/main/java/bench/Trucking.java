package bench;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;

/** The trucking application of the demo, written for Kafka Streams: the same topics, the same rows. */
public final class Trucking {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Serde<String> TEXT = Serdes.String();
  private static final Serde<JsonNode> ROW = Serdes.serdeFrom(writer(), reader());
  private static final String[] POSITION = {
    "eventTime", "truckId", "driverId", "routeId", "route", "eventType", "latitude", "longitude", "correlationId"
  };
  private static final String[] DRIVER = {"driverName", "certified", "wagePlan"};
  private static final Duration GRACE = Duration.ofSeconds(3);

  private static Serializer<JsonNode> writer() {
    return (topic, row) -> {
      try {
        return row == null ? null : JSON.writeValueAsBytes(row);
      } catch (IOException impossible) {
        throw new IllegalStateException(impossible);
      }
    };
  }

  private static Deserializer<JsonNode> reader() {
    return (topic, bytes) -> {
      try {
        return bytes == null ? null : JSON.readTree(bytes);
      } catch (IOException malformed) {
        throw new IllegalArgumentException(malformed);
      }
    };
  }

  /** The fields of the schema, or null where the value is no JSON. */
  private static JsonNode position(byte[] value) {
    try {
      JsonNode whole = JSON.readTree(value);
      return picked(whole, POSITION);
    } catch (IOException malformed) {
      return null;
    }
  }

  private static ObjectNode picked(JsonNode whole, String... fields) {
    ObjectNode row = JSON.createObjectNode();
    for (String field : fields) {
      row.set(field, whole.get(field));
    }
    return row;
  }

  private static String driverKey(JsonNode row) {
    return "{\"id\":" + row.get("driverId").asInt() + "}";
  }

  private static String measurement(JsonNode row) {
    return row.get("driverId").asInt() + "/" + row.get("truckId").asInt() + "/" + row.get("correlationId").asLong();
  }

  private static JsonNode withDriver(JsonNode row, JsonNode change) {
    ObjectNode all = row.deepCopy();
    if (change != null) {
      JsonNode driver = change.get("after");
      for (String field : DRIVER) {
        all.set(field, driver.get(field));
      }
    }
    return all;
  }

  private static JsonNode withSpeed(JsonNode row, JsonNode speed) {
    ObjectNode all = row.deepCopy();
    all.set("speed", speed == null ? null : speed.get("speed"));
    return all;
  }

  private static boolean is(JsonNode row, String kind) {
    return row.get("eventType").textValue().equals(kind);
  }

  private static void add(ObjectNode counts, String field, boolean counted) {
    counts.put(field, counts.path(field).asLong() + (counted ? 1 : 0));
  }

  private static JsonNode counted(JsonNode row, JsonNode before) {
    ObjectNode counts = before.deepCopy();
    counts.set("driverId", row.get("driverId"));
    add(counts, "events", true);
    add(counts, "violations", !is(row, "Normal"));
    add(counts, "overspeed", is(row, "Overspeed"));
    add(counts, "laneDeparture", is(row, "Lane Departure"));
    add(counts, "followingDistance", is(row, "Unsafe following distance"));
    add(counts, "tailDistance", is(row, "Unsafe tail distance"));
    return counts;
  }

  private static JsonNode spree(JsonNode row, JsonNode before) {
    ObjectNode spree = before.deepCopy();
    spree.set("driverId", row.get("driverId"));
    add(spree, "violations", true);
    add(spree, "overspeeds", is(row, "Overspeed"));
    TreeSet<String> kinds = new TreeSet<>();
    spree.path("kinds").forEach(kind -> kinds.add(kind.textValue()));
    kinds.add(row.get("eventType").textValue());
    ArrayNode listed = spree.putArray("kinds");
    kinds.forEach(listed::add);
    return spree;
  }

  private static KeyValue<String, JsonNode> closed(Windowed<String> window, JsonNode spree) {
    ObjectNode row = spree.deepCopy();
    row.put("window_start", Instant.ofEpochMilli(window.window().start()).toString());
    row.put("window_end", Instant.ofEpochMilli(window.window().end()).toString());
    return KeyValue.pair(window.key(), row);
  }

  private static JsonNode judged(JsonNode row) {
    ObjectNode alert = (ObjectNode) row;
    boolean fast = row.get("overspeeds").asInt() >= 5;
    alert.put("alert", fast ? "High speed" : row.get("kinds").size() > 1 ? "Reckless driving" : "Dangerous driving");
    return alert;
  }

  static void define(StreamsBuilder builder) {
    KStream<String, byte[]> raw = builder.stream("truck_events", Consumed.with(TEXT, Serdes.ByteArray()));
    // A value that is no JSON is null after parsing, so it must be kept beside the row until it is written.
    var parts =
        raw.mapValues(value -> new Parsed(value, position(value)))
            .split(Named.as("parsed-"))
            .branch((key, value) -> value.row() == null, Branched.as("bad"))
            .defaultBranch(Branched.as("good"));
    parts.get("parsed-bad").mapValues(Parsed::value).to("trucking.dlq", Produced.with(TEXT, Serdes.ByteArray()));
    KStream<String, JsonNode> positions = parts.get("parsed-good").mapValues(Parsed::row);
    KStream<String, JsonNode> speeds = builder.stream("truck_speed_events", Consumed.with(TEXT, ROW));
    GlobalKTable<String, JsonNode> drivers = builder.globalTable("trucking.public.driver", Consumed.with(TEXT, ROW));

    KStream<String, JsonNode> dangerous = positions.filter((key, row) -> !is(row, "Normal"));
    dangerous.to("dangerous_driving", Produced.with(TEXT, ROW));

    KTable<String, JsonNode> statistics =
        positions
            .groupByKey(Grouped.with(TEXT, ROW))
            .aggregate(
                JSON::createObjectNode,
                (key, row, before) -> counted(row, before),
                Materialized.<String, JsonNode, KeyValueStore<Bytes, byte[]>>as("statistics")
                    .withKeySerde(TEXT)
                    .withValueSerde(ROW));
    statistics.toStream().to("driver_stats", Produced.with(TEXT, ROW));

    KStream<String, JsonNode> speedOf = speeds.selectKey((key, row) -> measurement(row));
    dangerous
        .selectKey((key, row) -> measurement(row))
        .leftJoin(
            speedOf,
            Trucking::withSpeed,
            JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(1), GRACE),
            StreamJoined.with(TEXT, ROW, ROW))
        .leftJoin(drivers, (key, row) -> driverKey(row), Trucking::withDriver)
        .selectKey((key, row) -> row.get("driverId").asText())
        .to("dangerous_driving_and_driver", Produced.with(TEXT, ROW));

    dangerous
        .groupByKey(Grouped.with(TEXT, ROW))
        .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), GRACE))
        .emitStrategy(EmitStrategy.onWindowClose())
        .aggregate(
            JSON::createObjectNode,
            (key, row, before) -> spree(row, before),
            // With its cache, the first look for closed windows goes through every minute since 1970: half a minute of CPU.
            Materialized.<String, JsonNode, WindowStore<Bytes, byte[]>>as("sprees")
                .withKeySerde(TEXT)
                .withValueSerde(ROW)
                .withCachingDisabled())
        .toStream()
        .filter((window, row) -> row.get("violations").asLong() >= 5)
        .map(Trucking::closed)
        .leftJoin(drivers, (key, row) -> driverKey(row), Trucking::withDriver)
        .mapValues(Trucking::judged)
        .to("driver_alerts", Produced.with(TEXT, ROW));
  }

  private record Parsed(byte[] value, JsonNode row) {}

  public static void main(String[] arguments) throws InterruptedException {
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "trucking-kafka-streams");
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[1]);
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, arguments[2]);
    // As the application of the demo: counts are written once a second.
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "1000");
    settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
    StreamsBuilder builder = new StreamsBuilder();
    define(builder);
    KafkaStreams streams = new KafkaStreams(builder.build(), settings);
    CountDownLatch ended = new CountDownLatch(1);
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      streams.close(Duration.ofSeconds(10));
      ended.countDown();
    }));
    streams.setUncaughtExceptionHandler(problem -> {
      problem.printStackTrace();
      System.exit(1);
      return null;
    });
    streams.start();
    ended.await();
  }
}
