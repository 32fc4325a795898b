import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** A pool or timer that is measured. */
interface Peer {
    /** The names of the pool's threads begin with this, so that the machine's own can be told from them. */
    String THREADS = "bench-";

    Object schedule(Runnable body, long delayNanos);

    /** Whether it was in time. */
    boolean cancel(Object handle);

    void every(Runnable body, long firstNanos, long periodNanos);

    long ping(long value) throws ExecutionException, InterruptedException;

    /** How many tasks wait, or −1 if it cannot tell. */
    int pending();

    /** Whether it promises the exact order of (deadline, submission) with one worker. */
    boolean isExact();

    /** How much it is known to run early. */
    default long early() {
        return 0;
    }

    void stop();

    static Peer start(String name, int workers) throws Exception {
        Peer peer = switch (name) {
            case "jdk" -> Executor.scheduledThreadPool(workers);
            case "jdk-fjp" -> Executor.forkJoinPool(workers);
            case "netty" -> workers > 1 ? null : (Peer) Class.forName("Netty").getConstructor().newInstance();
            default -> throw new Failure("no peer `" + name + "`");
        };
        if (peer == null) {
            throw new Unsupported("runs everything on one thread");
        }
        peer.ping(1);
        return peer;
    }

    static Peer startAtMost(String name, int workers) throws Exception {
        return start(name, name.equals("netty") ? 1 : workers);
    }

    /** The peer cannot express the workload. */
    @SuppressWarnings("serial")
    final class Unsupported extends RuntimeException {
        Unsupported(String why) {
            super(why, null, false, false);
        }
    }

    /** A verification failed, or the command line is wrong. */
    @SuppressWarnings("serial")
    final class Failure extends RuntimeException {
        Failure(String why) {
            super(why);
        }
    }

    static Thread thread(Runnable body, int number) {
        Thread thread = new Thread(body, THREADS + number);
        thread.setDaemon(true);
        return thread;
    }

    /** The executors of the class library. */
    record Executor(ScheduledExecutorService pool, boolean isExact) implements Peer {
        /** With removal on cancel: without it memory grows with every cancelled timeout. */
        static Peer scheduledThreadPool(int workers) {
            AtomicInteger number = new AtomicInteger();
            var pool = new ScheduledThreadPoolExecutor(workers, body -> thread(body, number.incrementAndGet()));
            pool.setRemoveOnCancelPolicy(true);
            pool.prestartAllCoreThreads();
            return new Executor(pool, true);
        }

        /** Schedules since 25. */
        static Peer forkJoinPool(int workers) {
            Object pool = new ForkJoinPool(workers, fork -> {
                var thread = ForkJoinPool.defaultForkJoinWorkerThreadFactory.newThread(fork);
                thread.setName(THREADS + thread.getPoolIndex());
                return thread;
            }, null, true);
            if (pool instanceof ScheduledExecutorService scheduler) {
                return new Executor(scheduler, false);
            }
            throw new Unsupported("ForkJoinPool schedules since JDK 25");
        }

        @Override
        public Object schedule(Runnable body, long delayNanos) {
            return pool.schedule(body, delayNanos, TimeUnit.NANOSECONDS);
        }

        @Override
        public boolean cancel(Object handle) {
            return ((Future<?>) handle).cancel(false);
        }

        @Override
        public void every(Runnable body, long firstNanos, long periodNanos) {
            pool.scheduleAtFixedRate(body, firstNanos, periodNanos, TimeUnit.NANOSECONDS);
        }

        @Override
        public long ping(long value) throws ExecutionException, InterruptedException {
            Callable<Long> body = () -> value;
            return pool.schedule(body, 0, TimeUnit.NANOSECONDS).get();
        }

        @Override
        public int pending() {
            return pool instanceof ScheduledThreadPoolExecutor stpe ? stpe.getQueue().size() : -1;
        }

        @Override
        public void stop() {
            pool.shutdownNow();
        }
    }
}
