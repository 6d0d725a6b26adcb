import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.delta.kernel.Scan;
import io.delta.kernel.Snapshot;
import io.delta.kernel.Table;
import io.delta.kernel.data.ColumnVector;
import io.delta.kernel.data.ColumnarBatch;
import io.delta.kernel.data.FilteredColumnarBatch;
import io.delta.kernel.data.Row;
import io.delta.kernel.defaults.engine.DefaultEngine;
import io.delta.kernel.engine.Engine;
import io.delta.kernel.engine.FileReadResult;
import io.delta.kernel.expressions.Column;
import io.delta.kernel.expressions.Literal;
import io.delta.kernel.expressions.Predicate;
import io.delta.kernel.internal.InternalScanFileUtils;
import io.delta.kernel.internal.data.ScanStateRow;
import io.delta.kernel.internal.types.DataTypeJsonSerDe;
import io.delta.kernel.internal.util.Utils;
import io.delta.kernel.types.*;
import io.delta.kernel.utils.CloseableIterator;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.math.BigDecimal;
import java.util.HexFormat;
import java.util.Optional;
import org.apache.hadoop.conf.Configuration;

/** Answers a line of JSON, a path and a condition, by a line with the schema and rows of Delta Kernel. */
public class KernelRows {
  static final ObjectMapper JSON = new ObjectMapper();
  static final Engine ENGINE = DefaultEngine.create(new Configuration());

  public static void main(String[] args) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      ObjectNode answer = JSON.createObjectNode();
      try {
        JsonNode asked = JSON.readTree(line);
        read(asked.get("path").asText(), asked.get("where"), answer);
      } catch (Exception error) {
        answer = JSON.createObjectNode().put("error", error.toString());
      }
      System.out.println(JSON.writeValueAsString(answer));
    }
  }

  static void read(String path, JsonNode where, ObjectNode answer) throws Exception {
    Snapshot snapshot = Table.forPath(ENGINE, path).getLatestSnapshot(ENGINE);
    StructType schema = snapshot.getSchema();
    answer.put("schema", DataTypeJsonSerDe.serializeDataType(schema));
    ArrayNode rows = answer.putArray("rows");
    Optional<Predicate> met = where.isNull() ? Optional.empty() : Optional.of(condition(where));
    Scan scan = met.map(snapshot.getScanBuilder()::withFilter).orElse(snapshot.getScanBuilder()).build();
    Row state = scan.getScanState(ENGINE);
    try (CloseableIterator<FilteredColumnarBatch> batches = scan.getScanFiles(ENGINE)) {
      while (batches.hasNext()) {
        try (CloseableIterator<Row> files = batches.next().getRows()) {
          while (files.hasNext()) {
            readFile(state, files.next(), schema, scan.getRemainingFilter(), rows);
          }
        }
      }
    }
  }

  static void readFile(
      Row state, Row file, StructType schema, Optional<Predicate> met, ArrayNode rows) throws Exception {
    CloseableIterator<FileReadResult> read =
        ENGINE
            .getParquetHandler()
            .readParquetFiles(
                Utils.singletonCloseableIterator(InternalScanFileUtils.getAddFileStatus(file)),
                ScanStateRow.getPhysicalDataReadSchema(state),
                Optional.empty());
    CloseableIterator<ColumnarBatch> physical = read.map(FileReadResult::getData);
    try (CloseableIterator<FilteredColumnarBatch> found =
        Scan.transformPhysicalData(ENGINE, state, file, physical)) {
      while (found.hasNext()) {
        FilteredColumnarBatch batch = found.next();
        Optional<ColumnVector> chosen = batch.getSelectionVector();
        if (met.isPresent()) {
          // What Kernel does not promise to filter is left to its caller.
          chosen =
              Optional.of(
                  ENGINE
                      .getExpressionHandler()
                      .getPredicateEvaluator(batch.getData().getSchema(), met.get())
                      .eval(batch.getData(), chosen));
        }
        addRows(batch.getData(), chosen, schema, rows);
      }
    }
  }

  static void addRows(
      ColumnarBatch batch, Optional<ColumnVector> chosen, StructType schema, ArrayNode rows) {
    for (int at = 0; at < batch.getSize(); at++) {
      if (chosen.isPresent() && (chosen.get().isNullAt(at) || !chosen.get().getBoolean(at))) {
        continue;
      }
      ArrayNode row = rows.addArray();
      for (int column = 0; column < schema.length(); column++) {
        row.add(value(batch.getColumnVector(column), at));
      }
    }
  }

  static JsonNode value(ColumnVector from, int at) {
    DataType type = from.getDataType();
    if (from.isNullAt(at)) {
      return JSON.nullNode();
    }
    if (type instanceof ArrayType) {
      ArrayNode list = JSON.createArrayNode();
      for (int one = 0; one < from.getArray(at).getSize(); one++) {
        list.add(value(from.getArray(at).getElements(), one));
      }
      return list;
    }
    if (type instanceof StructType) {
      ObjectNode struct = JSON.createObjectNode();
      int child = 0;
      for (StructField field : ((StructType) type).fields()) {
        struct.set(field.getName(), value(from.getChild(child++), at));
      }
      return struct;
    }
    return JSON.valueToTree(simple(from, at, type));
  }

  static Object simple(ColumnVector from, int at, DataType type) {
    if (type instanceof BooleanType) return from.getBoolean(at);
    if (type instanceof IntegerType || type instanceof DateType) return from.getInt(at);
    if (type instanceof LongType || type instanceof TimestampType) return from.getLong(at);
    // As text, which has each digit, NaN and the sign of zero.
    if (type instanceof DoubleType) return Double.toString(from.getDouble(at));
    if (type instanceof DecimalType) return from.getDecimal(at).toPlainString();
    if (type instanceof BinaryType) return HexFormat.of().formatHex(from.getBinary(at));
    return from.getString(at);
  }

  static Predicate condition(JsonNode where) {
    Column column = new Column(where.get("column").asText());
    String word = where.get("word").asText();
    if (word.equals("IS NULL")) {
      return new Predicate("IS_NULL", column);
    }
    return new Predicate(word, column, literal(where.get("type").asText(), where.get("value")));
  }

  static Literal literal(String type, JsonNode value) {
    switch (type) {
      case "bool":
        return Literal.ofBoolean(value.asBoolean());
      case "int":
        return Literal.ofLong(value.asLong());
      case "float":
        return Literal.ofDouble(Double.parseDouble(value.asText()));
      case "datetime":
        return Literal.ofTimestamp(value.asLong());
      case "date":
        return Literal.ofDate(value.asInt());
      case "Decimal":
        return Literal.ofDecimal(new BigDecimal(value.asText()), 38, 18);
      case "bytes":
        return Literal.ofBinary(HexFormat.of().parseHex(value.asText()));
      default:
        return Literal.ofString(value.asText());
    }
  }
}
