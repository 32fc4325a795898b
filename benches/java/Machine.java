import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** What the kernel knows about the threads of this process, and the virtual machine about its memory. */
final class Machine {
    private Machine() {}

    private static List<Path> threads() throws IOException {
        try (var list = Files.list(Path.of("/proc/self/task"))) {
            return new ArrayList<>(list.toList());
        }
    }

    /** A thread may end between being listed and being read. */
    private static String read(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException gone) {
            return "";
        }
    }

    /** Processor time of all threads, the compiler's and the collector's with them. */
    static long cpuNanos() throws IOException {
        long sum = 0;
        for (Path thread : threads()) {
            String[] words = read(thread.resolve("schedstat")).trim().split(" ");
            sum += words[0].isEmpty() ? 0 : Long.parseLong(words[0]);
        }
        return sum;
    }

    /** Context switches of the pool's threads alone: the virtual machine has some that tick by themselves. */
    static long switches() throws IOException {
        long sum = 0;
        for (Path thread : threads()) {
            if (!read(thread.resolve("comm")).startsWith(Peer.THREADS)) {
                continue;
            }
            for (String line : read(thread.resolve("status")).split("\n")) {
                if (line.contains("ctxt_switches")) {
                    sum += Long.parseLong(line.substring(line.lastIndexOf('\t') + 1).trim());
                }
            }
        }
        return sum;
    }

    /** Bytes of live objects. */
    static long live() throws InterruptedException {
        for (int i = 0; i < 3; i++) {
            System.gc();
            Thread.sleep(20);
        }
        Runtime runtime = Runtime.getRuntime();
        return runtime.totalMemory() - runtime.freeMemory();
    }
}
