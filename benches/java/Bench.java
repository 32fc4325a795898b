import java.util.Arrays;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.BooleanSupplier;
import java.util.function.LongSupplier;

/**
 * The same workloads as the Rust side, with the same command line and the same results:
 * {@code java Bench <workload> <peer> key=value…}. See {@code src/main.rs} for what comes out, and
 * {@code src/workload/} for what each workload is.
 *
 * <p>Each workload first runs in small, several times, so that what is measured is compiled code.
 */
public final class Bench {
    private static final long HOUR = 3_600_000_000_000L;
    private static final long PATIENCE = 50_000_000_000L;
    private static final LongAdder RAN = new LongAdder();

    private final String peer;
    private final Map<String, String> args = new HashMap<>();
    private final StringBuilder line = new StringBuilder();

    private Bench(String[] words) {
        peer = words[1];
        for (int i = 2; i < words.length; i++) {
            int equals = words[i].indexOf('=');
            args.put(words[i].substring(0, equals), words[i].substring(equals + 1));
        }
    }

    public static void main(String[] words) {
        int code = 0;
        try {
            if (words.length < 2) {
                throw new Peer.Failure("usage: Bench <workload> <peer> key=value…");
            }
            Bench bench = new Bench(words);
            bench.run(words[0]);
            System.out.println(bench.line.toString().trim());
        } catch (Peer.Unsupported unsupported) {
            System.out.println("unsupported=" + unsupported.getMessage());
            code = 3;
        } catch (Throwable trouble) {
            System.err.println("bench: " + trouble);
            code = 1;
        }
        System.out.flush();
        Runtime.getRuntime().halt(code);
    }

    private void run(String workload) throws Exception {
        switch (workload) {
            case "insert" -> insert();
            case "timeout" -> timeout();
            case "fire" -> fire();
            case "lateness" -> lateness();
            case "periodic" -> periodic();
            case "memory" -> memory();
            case "idle" -> idle();
            case "ping" -> ping();
            case "pause" -> throw new Peer.Unsupported("its clock cannot be stepped");
            default -> throw new Peer.Failure("no workload `" + workload + "`");
        }
    }

    // ---- W1: see src/workload/insert.rs

    private void insert() throws Exception {
        int n = get("n", 100_000);
        int producers = get("producers", 1);
        boolean descending = args.getOrDefault("order", "random").equals("descending");
        int repeats = Math.max(1, Math.min(100_000 / n, 50));
        for (int i = 0; i < 10; i++) {
            Peer small = Peer.start(peer, get("workers", 1));
            insertPass(small, Math.min(n, 10_000), producers, descending);
            small.stop();
        }
        System.gc();
        double[] nanos = new double[repeats];
        long settle = 0;
        for (int i = 0; i < repeats; i++) {
            Peer pool = Peer.start(peer, get("workers", 1));
            nanos[i] = insertPass(pool, n, producers, descending);
            long before = System.nanoTime();
            pool.ping(1);
            settle = System.nanoTime() - before;
            check(RAN.sum() == 0, "a task ran an hour early");
            checkPending(pool, n / producers * producers);
            if (i + 1 < repeats) {
                pool.stop();
            }
        }
        Arrays.sort(nanos);
        put("ns", nanos[repeats / 2]);
        put("settle_ms", settle / 1e6);
    }

    private static double insertPass(Peer pool, int n, int producers, boolean descending) throws Exception {
        int each = n / producers;
        long took = together(producers, thread -> {
            SplittableRandom random = new SplittableRandom(thread);
            return () -> {
                for (int at = 0; at < each; at++) {
                    long delay = descending ? 2 * HOUR - HOUR / each * at : HOUR + random.nextLong(HOUR);
                    pool.schedule(RAN::increment, delay);
                }
                return 0;
            };
        });
        return (double) took / ((long) each * producers);
    }

    // ---- W2: see src/workload/timeout.rs

    private void timeout() throws Exception {
        int pending = get("pending", 100_000);
        int operations = get("n", 200_000);
        int producers = get("producers", 1);
        // Compile first, then again with the real size of the queue.
        Peer small = Peer.start(peer, 1);
        timeoutPass(small, 1_000, 100_000, producers, 30);
        small.stop();
        Peer pool = Peer.start(peer, get("workers", 1));
        long before = Machine.live();
        double nanos = timeoutPass(pool, pending, operations, producers, get("seconds", 30));
        check(RAN.sum() == 0, "a task ran early, or although it was cancelled");
        checkPending(pool, pending / producers * producers);
        double perTask = (double) (Machine.live() - before) / pending;
        long settle = System.nanoTime();
        pool.ping(1);
        settle = System.nanoTime() - settle;
        verifyCancels(pool);
        put("ns", nanos);
        // A heap does not shrink and grow like resident memory; what is live in the end for each that is pending.
        put("live_bytes", perTask);
        put("settle_ms", settle / 1e6);
    }

    private static double timeoutPass(Peer pool, int pending, int operations, int producers, long seconds)
            throws Exception {
        int each = operations / producers;
        long begun = System.nanoTime();
        LongAdder missed = new LongAdder();
        long took = together(producers, thread -> {
            SplittableRandom random = new SplittableRandom(thread);
            Object[] handles = new Object[pending / producers];
            for (int at = 0; at < handles.length; at++) {
                handles[at] = pool.schedule(RAN::increment, timeoutDelay(seconds, random));
            }
            missed.add(pairs(pool, handles, each / 2, seconds, random));
            return () -> {
                missed.add(pairs(pool, handles, each, seconds, random));
                return 0;
            };
        });
        if (System.nanoTime() - begun > seconds * 800_000_000L) {
            throw new Peer.Unsupported("too slow: tasks came due before it was done");
        }
        check(missed.sum() == 0, missed.sum() + " cancels were refused, yet nothing was due");
        return (double) took / ((long) each * producers);
    }

    private static long timeoutDelay(long seconds, SplittableRandom random) {
        long sixth = seconds * 1_000_000_000L / 6;
        return 5 * sixth + random.nextLong(2 * sixth);
    }

    private static int pairs(Peer pool, Object[] handles, int operations, long seconds, SplittableRandom random) {
        int missed = 0;
        for (int i = 0; i < operations; i++) {
            int at = random.nextInt(handles.length);
            Object old = handles[at];
            handles[at] = pool.schedule(RAN::increment, timeoutDelay(seconds, random));
            missed += pool.cancel(old) ? 0 : 1;
        }
        return missed;
    }

    // ---- W3, W3b: see src/workload/fire.rs

    private void fire() throws Exception {
        int n = get("n", 1_000_000);
        int workers = get("workers", 1);
        long spread = get("spread_ms", 100) * 1_000_000L;
        Peer pool = Peer.start(peer, workers);
        for (int i = 0; i < 5; i++) {
            firePass(pool, Math.min(n, 50_000), spread / 10);
        }
        put("per_s", n * 1e9 / firePass(pool, n, spread));
        if (workers == 1) {
            verifyOrder(pool, spread == 0 ? 0 : 40_000_000);
        }
    }

    private static long firePass(Peer pool, int n, long spread) throws Exception {
        Tally tally = new Tally(n);
        SplittableRandom random = new SplittableRandom(1);
        long start = System.nanoTime();
        for (int i = 0; i < n; i++) {
            int task = i;
            pool.schedule(() -> tally.mark(task), spread == 0 ? 0 : random.nextLong(spread + 1));
        }
        tally.await();
        return System.nanoTime() - start;
    }

    // ---- W4: see src/workload/lateness.rs

    private void lateness() throws Exception {
        Peer pool = Peer.startAtMost(peer, get("workers", 2));
        firePass(pool, 50_000, 100_000_000);
        long rate = get("rate", 10_000);
        long length = get("millis", 5_000) * 1_000_000L;
        int n = (int) (rate * length / 1_000_000_000L);
        SplittableRandom random = new SplittableRandom(rate);
        long[] instants = new long[n];
        AtomicLongArray starts = new AtomicLongArray(n);
        long window = System.nanoTime() + 300_000_000 + n * 4_000L;
        for (int i = 0; i < n; i++) {
            int task = i;
            instants[i] = window + random.nextLong(length);
            pool.schedule(() -> {
                if (starts.getAndSet(task, System.nanoTime()) != 0) {
                    System.err.println("bench: task " + task + " ran twice");
                    Runtime.getRuntime().halt(1);
                }
            }, Math.max(0, instants[i] - System.nanoTime()));
        }
        boolean overrun = System.nanoTime() > window;
        sleepUntil(window);
        long cpu = Machine.cpuNanos();
        sleepUntil(window + length);
        check(eventually(() -> ran(starts) == n), "a task did not run");
        cpu = Machine.cpuNanos() - cpu;
        putLateness(starts, at -> instants[at], pool);
        put("cpu_ms", cpu / 1e6);
        put("overrun", overrun ? 1 : 0);
    }

    // ---- W5: see src/workload/periodic.rs

    private void periodic() throws Exception {
        Peer pool = Peer.startAtMost(peer, get("workers", 2));
        firePass(pool, 50_000, 100_000_000);
        int n = get("n", 10_000);
        long period = get("period_ms", 100) * 1_000_000L;
        long length = get("millis", 5_000) * 1_000_000L;
        int runs = (int) (length / period);
        AtomicLongArray starts = new AtomicLongArray(n * runs);
        long base = System.nanoTime() + 200_000_000 + n * 4_000L;
        for (int i = 0; i < n; i++) {
            int task = i;
            int[] run = new int[1];
            pool.every(() -> {
                if (run[0] < runs) {
                    starts.set(task * runs + run[0], System.nanoTime());
                }
                run[0]++;
            }, Math.max(0, base + period * i / n - System.nanoTime()), period);
        }
        boolean overrun = System.nanoTime() > base;
        sleepUntil(base);
        long cpu = Machine.cpuNanos();
        sleepUntil(base + length);
        cpu = Machine.cpuNanos() - cpu;
        eventually(() -> ran(starts) == n * runs);
        int missing = n * runs - ran(starts);
        check(missing == 0, missing + " of " + n * runs + " runs are missing");
        putLateness(starts, at -> base + period * (at / runs) / n + period * (at % runs), pool);
        put("cpu_ns", (double) cpu / (n * runs));
        put("overrun", overrun ? 1 : 0);
    }

    private interface Deadline {
        long of(int task);
    }

    private static int ran(AtomicLongArray starts) {
        int ran = 0;
        for (int i = 0; i < starts.length(); i++) {
            ran += starts.get(i) != 0 ? 1 : 0;
        }
        return ran;
    }

    private void putLateness(AtomicLongArray starts, Deadline deadline, Peer pool) {
        long[] late = new long[starts.length()];
        long early = 0;
        for (int i = 0; i < late.length; i++) {
            long by = starts.get(i) - deadline.of(i);
            late[i] = Math.max(0, by);
            early = Math.max(early, -by);
        }
        check(early <= pool.early(), "a task started " + early + " ns before its deadline");
        putDistribution(late);
        put("early_us", early / 1e3);
    }

    // ---- W6: see src/workload/memory.rs

    private record Captured(long a, long b) implements Runnable {
        @Override
        public void run() {
            RAN.add(a | b);
        }
    }

    private void memory() throws Exception {
        int n = get("n", 1_000_000);
        boolean keep = get("keep", 0) == 1;
        Peer pool = Peer.start(peer, get("workers", 1));
        SplittableRandom random = new SplittableRandom(1);
        Object[] handles = new Object[keep ? n : 1];
        long before = Machine.live();
        for (int i = 0; i < n; i++) {
            handles[keep ? i : 0] = pool.schedule(new Captured(i, HOUR), HOUR + random.nextLong(HOUR));
        }
        pool.ping(1);
        long after = Machine.live();
        check(RAN.sum() == 0, "a task ran an hour early");
        checkPending(pool, n);
        check(handles[0] != null, "no handle");
        put("bytes", (double) (after - before) / n);
    }

    // ---- W7: see src/workload/idle.rs

    private void idle() throws Exception {
        Peer pool = Peer.startAtMost(peer, get("workers", 2));
        pool.schedule(RAN::increment, HOUR);
        long length = get("millis", 5_000);
        Thread.sleep(300);
        long switches = Machine.switches();
        long cpu = Machine.cpuNanos();
        Thread.sleep(length);
        switches = Machine.switches() - switches;
        cpu = Machine.cpuNanos() - cpu;
        check(RAN.sum() == 0, "a task ran an hour early");
        put("switches_per_s", switches * 1e3 / length);
        put("cpu_us_per_s", cpu / (double) length);
    }

    // ---- W8: see src/workload/ping.rs

    private void ping() throws Exception {
        int n = get("n", 20_000);
        Peer pool = Peer.start(peer, get("workers", 1));
        int warm = Math.max(n / 4, 20_000);
        // Some take milliseconds for each, and are known after a few hundred.
        long warmUntil = System.nanoTime() + 1_000_000_000;
        for (int i = 0; i < warm && System.nanoTime() < warmUntil; i++) {
            pool.ping(i);
        }
        long[] nanos = new long[n];
        long end = System.nanoTime() + 4_000_000_000L;
        int measured = 0;
        for (int i = 0; i < n && System.nanoTime() < end; i++) {
            long start = System.nanoTime();
            long value = pool.ping(i);
            long took = System.nanoTime() - start;
            check(value == i, "asked for " + i + " and got " + value);
            nanos[measured++] = took;
        }
        putDistribution(Arrays.copyOf(nanos, measured));
    }

    // ---- verification: see src/verify.rs

    private static void verifyCancels(Peer pool) throws Exception {
        int tasks = 400;
        long delay = 150_000_000;
        Tally tally = new Tally(tasks);
        long begun = System.nanoTime();
        Object[] handles = new Object[tasks];
        for (int i = 0; i < tasks; i++) {
            int task = i;
            handles[i] = pool.schedule(() -> tally.mark(task), delay);
        }
        for (int i = 1; i < tasks; i += 2) {
            pool.cancel(handles[i]);
        }
        boolean inTime = System.nanoTime() - begun < delay * 2 / 3;
        CountDownLatch over = new CountDownLatch(1);
        pool.schedule(over::countDown, delay + 20_000_000);
        over.await();
        check(eventually(() -> tally.ran(0) == tasks / 2), "a task that was not cancelled did not run");
        check(!inTime || tally.ran(1) == 0, tally.ran(1) + " cancelled tasks ran");
    }

    private void verifyOrder(Peer pool, long spread) throws Exception {
        int tasks = 5_000;
        long lead = spread == 0 ? 0 : 40_000_000;
        long[] earliest = new long[tasks];
        long[] latest = new long[tasks];
        long[] starts = new long[tasks];
        int[] byTurn = new int[tasks];
        AtomicInteger turn = new AtomicInteger();
        Tally tally = new Tally(tasks);
        SplittableRandom random = new SplittableRandom(7);
        for (int i = 0; i < tasks; i++) {
            int task = i;
            long delay = lead + (spread == 0 ? 0 : random.nextLong(spread));
            earliest[i] = System.nanoTime() + delay;
            pool.schedule(() -> {
                starts[task] = System.nanoTime();
                byTurn[turn.getAndIncrement()] = task;
                tally.mark(task);
            }, delay);
            latest[i] = System.nanoTime() + delay;
        }
        long scheduled = System.nanoTime();
        tally.await();
        long early = 0;
        long high = Long.MIN_VALUE;
        int disorder = 0;
        for (int task : byTurn) {
            early = Math.max(early, earliest[task] - starts[task]);
            if (spread == 0 || starts[task] > scheduled) {
                disorder += latest[task] < high ? 1 : 0;
                high = Math.max(high, earliest[task]);
            }
        }
        check(early <= pool.early(), "a task started " + early + " ns before its deadline");
        check(disorder == 0 || !pool.isExact(), disorder + " tasks started after one with a later deadline");
        put("disorder", disorder);
        put("early_us", early / 1e3);
    }

    /** Which tasks have run, and how many. */
    private static final class Tally {
        private final byte[] marks;
        private final LongAdder count = new LongAdder();

        Tally(int tasks) {
            marks = new byte[tasks];
        }

        void mark(int task) {
            marks[task]++;
            count.increment();
        }

        /** How many of every other task have run, the first of them being {@code from}. */
        int ran(int from) {
            int ran = 0;
            for (int i = from; i < marks.length; i += 2) {
                ran += marks[i];
            }
            return ran;
        }

        void await() throws InterruptedException {
            eventually(() -> count.sum() >= marks.length);
            int lost = 0;
            int again = 0;
            for (byte mark : marks) {
                lost += mark == 0 ? 1 : 0;
                again += mark > 1 ? 1 : 0;
            }
            check(lost + again == 0,
                    "of " + marks.length + " tasks " + lost + " did not run and " + again + " ran more than once");
        }
    }

    // ---- tools

    private interface Prepare {
        LongSupplier on(int thread);
    }

    /** Nanoseconds from the first start to the last end of what all threads do together. */
    private static long together(int threads, Prepare prepare) throws InterruptedException {
        CountDownLatch ready = new CountDownLatch(threads);
        long[] starts = new long[threads];
        long[] ends = new long[threads];
        Thread[] running = new Thread[threads];
        Throwable[] trouble = new Throwable[1];
        for (int i = 0; i < threads; i++) {
            int thread = i;
            running[i] = new Thread(() -> {
                LongSupplier run = prepare.on(thread);
                ready.countDown();
                try {
                    ready.await();
                } catch (InterruptedException never) {
                    throw new IllegalStateException(never);
                }
                starts[thread] = System.nanoTime();
                run.getAsLong();
                ends[thread] = System.nanoTime();
            });
            running[i].setUncaughtExceptionHandler((t, error) -> trouble[0] = error);
            running[i].start();
        }
        for (Thread thread : running) {
            thread.join();
        }
        if (trouble[0] != null) {
            throw new Peer.Failure(trouble[0].toString());
        }
        return Arrays.stream(ends).max().orElse(0) - Arrays.stream(starts).min().orElse(0);
    }

    private static boolean eventually(BooleanSupplier isSo) throws InterruptedException {
        long end = System.nanoTime() + PATIENCE;
        while (!isSo.getAsBoolean()) {
            if (System.nanoTime() > end) {
                return false;
            }
            Thread.sleep(0, 200_000);
        }
        return true;
    }

    private static void sleepUntil(long instant) throws InterruptedException {
        long left = instant - System.nanoTime();
        if (left > 0) {
            Thread.sleep(left / 1_000_000, (int) (left % 1_000_000));
        }
    }

    private static void check(boolean isSo, String otherwise) {
        if (!isSo) {
            throw new Peer.Failure(otherwise);
        }
    }

    private static void checkPending(Peer pool, int expected) {
        int pending = pool.pending();
        check(pending < 0 || pending == expected, pending + " tasks are pending, not " + expected);
    }

    private int get(String key, int otherwise) {
        return Integer.parseInt(args.getOrDefault(key, String.valueOf(otherwise)));
    }

    private void put(String key, double value) {
        line.append(' ').append(key).append('=');
        line.append(value == Math.rint(value) ? String.valueOf((long) value) : String.format(Locale.ROOT, "%.3f", value));
    }

    private static final double[] SHARES = {0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1};
    private static final String[] NAMES = {"p1", "p10", "p25", "p50", "p75", "p90", "p99", "p999", "max"};

    private void putDistribution(long[] nanos) {
        Arrays.sort(nanos);
        for (int i = 0; i < SHARES.length; i++) {
            put(NAMES[i] + "_us", nanos[(int) Math.round((nanos.length - 1) * SHARES[i])] / 1e3);
        }
    }
}
