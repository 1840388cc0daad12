import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** HDFS in one process: arguments DIRECTORY. Prints its port, and ends with its standard input. */
public class SmallCluster {
    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        configuration.set("dfs.permissions.enabled", "false");
        configuration.set("dfs.replication", "1");
        MiniDFSCluster cluster =
                new MiniDFSCluster.Builder(configuration, new File(arguments[0])).numDataNodes(1).build();
        cluster.waitActive();
        System.out.println("port " + cluster.getNameNodePort());
        while (System.in.read() >= 0) {}
        cluster.shutdown();
    }
}
