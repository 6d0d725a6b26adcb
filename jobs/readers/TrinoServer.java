import static com.google.inject.multibindings.MapBinder.newMapBinder;
import static io.trino.testing.TestingSession.testSessionBuilder;

import com.google.inject.Module;
import io.trino.filesystem.TrinoFileSystemFactory;
import io.trino.filesystem.local.LocalFileSystemFactory;
import io.trino.plugin.deltalake.DeltaLakeConnectorFactory;
import io.trino.spi.Plugin;
import io.trino.spi.connector.Connector;
import io.trino.spi.connector.ConnectorContext;
import io.trino.spi.connector.ConnectorFactory;
import io.trino.testing.StandaloneQueryRunner;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/** Serves Trino in this process, with a catalog of Delta; says where, and ends with its input. */
public class TrinoServer {
  /** Reads the disk, too, which this version has for its own tests only. */
  static class Local implements ConnectorFactory {
    public String getName() {
      return "local_delta_lake";
    }

    public Connector create(String name, Map<String, String> config, ConnectorContext context) {
      Module local =
          binder ->
              newMapBinder(binder, String.class, TrinoFileSystemFactory.class)
                  .addBinding("local")
                  .toInstance(new LocalFileSystemFactory(Path.of("/")));
      return DeltaLakeConnectorFactory.createConnector(name, config, context, Optional.empty(), local);
    }
  }

  static class LocalPlugin implements Plugin {
    public Iterable<ConnectorFactory> getConnectorFactories() {
      return List.of(new Local());
    }
  }

  public static void main(String[] args) throws Exception {
    Map<String, String> config = new TreeMap<>();
    config.put("hive.metastore", "file");
    config.put("hive.metastore.catalog.dir", "local://" + Files.createTempDirectory("trino"));
    config.put("delta.register-table-procedure.enabled", "true");
    config.put("fs.hadoop.enabled", "false");
    if (System.getenv("AWS_ENDPOINT_URL") != null) {
      config.put("fs.native-s3.enabled", "true");
      config.put("s3.path-style-access", "true");
      config.put("s3.endpoint", System.getenv("AWS_ENDPOINT_URL"));
      config.put("s3.region", System.getenv("AWS_REGION"));
      config.put("s3.aws-access-key", System.getenv("AWS_ACCESS_KEY_ID"));
      config.put("s3.aws-secret-key", System.getenv("AWS_SECRET_ACCESS_KEY"));
    }
    PrintStream out = System.out; // It is a log from here on.
    try (StandaloneQueryRunner trino = new StandaloneQueryRunner(testSessionBuilder().build())) {
      trino.installPlugin(new LocalPlugin());
      trino.createCatalog("delta", "local_delta_lake", config);
      out.println(trino.getCoordinator().getBaseUrl());
      System.in.transferTo(System.err);
    }
    System.exit(0);
  }
}
