package java.util.concurrent;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.StringJoiner;

/**
 * Runs programs, read from standard input, on ScheduledThreadPoolExecutor, and writes what happened.
 *
 * <p>The language is that of program.rs, the trace that of ours.rs. Facts are reported as Java has them; what is
 * different by intention is translated by the reader, in differences.rs.
 */
final class Reference {
    private static final long TICK = TimeUnit.MILLISECONDS.toNanos(1);
    /** What JDK 24 and later make of any longer delay. Older ones sort those wrongly beside overdue tasks. */
    private static final long FOREVER = Long.MAX_VALUE >> 1;
    private static final long FAR = TimeUnit.DAYS.toNanos(365);

    /** The argument is the directory that patches java.base. */
    public static void main(String[] args) throws Exception {
        Redirect.into(Path.of(args[0]));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = new PrintStream(System.out, false);
        out.println(isRedirected() ? "ready" : "the executor does not read VirtualTime");
        out.flush();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            Reference reference = new Reference(Integer.parseInt(words[1]), Long.parseLong(words[2]));
            reference.read(in);
            reference.run();
            reference.trace.forEach(out::println);
            out.println("end");
            out.flush();
        }
    }

    /** Whether, in time that stands still, a delay stays what it is. */
    private static boolean isRedirected() throws Exception {
        Reference reference = new Reference(1, 1);
        ScheduledFuture<?> far = reference.pool.schedule(() -> {}, FAR, TimeUnit.NANOSECONDS);
        boolean exact = far.getDelay(TimeUnit.NANOSECONDS) == FAR;
        reference.pool.shutdownNow();
        return exact;
    }

    private final class Task implements Callable<String>, Runnable {
        final int number;
        final String[] kind;
        final List<String[]> body = new ArrayList<>();
        ScheduledFuture<?> handle;
        int runs;

        Task(int number, String[] kind) {
            this.number = number;
            this.kind = kind;
        }

        @Override
        public void run() {
            runs++;
            String me = number + "#" + runs;
            say(me + " begins" + interrupted());
            try {
                for (String[] line : body) {
                    if (Integer.parseInt(line[2]) == runs) {
                        act(me, Arrays.copyOfRange(line, 3, line.length));
                    }
                }
            } finally {
                say(me + " ends" + interrupted());
            }
        }

        @Override
        public String call() {
            run();
            return "value " + number;
        }
    }

    /** The class under test, watched: entries that had been cancelled are run as well, without effect. */
    private static final class Pool extends ScheduledThreadPoolExecutor {
        volatile int idleRuns;
        private final ThreadLocal<Boolean> idle = new ThreadLocal<>();

        Pool(int threads) {
            super(threads);
        }

        @Override
        protected void beforeExecute(Thread thread, Runnable task) {
            idle.set(((Future<?>) task).isCancelled());
        }

        @Override
        protected void afterExecute(Runnable task, Throwable failure) {
            if (idle.get()) {
                synchronized (this) {
                    idleRuns++;
                }
            }
        }
    }

    private final Pool pool;
    private final VirtualTime time;
    private final List<Task> tasks = new ArrayList<>();
    private final List<String[]> main = new ArrayList<>();
    /** Its monitor guards the handles too. */
    private final List<String> trace = new ArrayList<>();

    private Reference(int threads, long keepAlive) throws ReflectiveOperationException {
        pool = new Pool(threads);
        pool.setKeepAliveTime(keepAlive * TICK, TimeUnit.NANOSECONDS);
        time = VirtualTime.govern(pool);
    }

    private void read(BufferedReader in) throws IOException {
        for (String line = in.readLine(); !line.equals("end"); line = in.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "task" -> tasks.add(new Task(tasks.size(), Arrays.copyOfRange(words, 2, words.length)));
                case "body" -> tasks.get(Integer.parseInt(words[1])).body.add(words);
                case "main" -> main.add(Arrays.copyOfRange(words, 1, words.length));
                default -> throw new IOException("unknown: " + line);
            }
        }
    }

    private void run() throws InterruptedException {
        for (String[] step : main) {
            act("main", step);
            time.settle();
            act("main", new String[] {"look"});
        }
        act("main", new String[] {"stop"});
        time.settle();
        act("main", new String[] {"look"});
        for (Task task : tasks) {
            say("outcome " + task.number + " " + outcome(task));
        }
    }

    private void say(String what) {
        synchronized (trace) {
            trace.add("@" + VirtualTime.nanoTime() / TICK + " " + what);
        }
    }

    private static String interrupted() {
        return Thread.currentThread().isInterrupted() ? " interrupted" : "";
    }

    private void act(String who, String[] action) {
        String text = who + " " + String.join(" ", action);
        switch (action[0]) {
            case "advance" -> {
                say(text);
                advance(Long.parseLong(action[1]));
            }
            case "last" -> {
                time.jump(Long.parseLong(action[1]) * TICK);
                say(text);
            }
            case "fail" -> {
                say(text);
                throw new IllegalStateException(who);
            }
            case "start" -> {
                // A task that is due at once begins to speak only when this has been said.
                synchronized (trace) {
                    say(text + ": " + start(tasks.get(Integer.parseInt(action[1]))));
                }
            }
            case "cancel" -> withHandle(text, action, handle -> handle.cancel(false));
            case "interrupt" -> withHandle(text, action, handle -> handle.cancel(true));
            case "remove" -> withHandle(text, action, handle -> pool.remove((Runnable) handle));
            case "look" -> say(text + ": " + look());
            case "stop" -> say(text + ": " + drained(pool.shutdownNow()));
            default -> {
                configure(action);
                say(text);
            }
        }
    }

    private void configure(String[] action) {
        boolean on = action.length > 1 && action[1].equals("yes");
        switch (action[0]) {
            case "shutdown" -> pool.shutdown();
            case "purge" -> pool.purge();
            case "remove-on-cancel" -> pool.setRemoveOnCancelPolicy(on);
            case "keep-delayed" -> pool.setExecuteExistingDelayedTasksAfterShutdownPolicy(on);
            case "keep-periodic" -> pool.setContinueExistingPeriodicTasksAfterShutdownPolicy(on);
            default -> throw new IllegalArgumentException(action[0]);
        }
    }

    private void advance(long ticks) {
        long target = VirtualTime.nanoTime() + ticks * TICK;
        try {
            while (VirtualTime.nanoTime() < target) {
                time.jump(TICK);
                time.settle();
            }
        } catch (InterruptedException never) {
            throw new AssertionError(never);
        }
    }

    private String start(Task task) {
        try {
            switch (task.kind[0]) {
                case "execute" -> pool.execute(task);
                case "submit" -> task.handle = (ScheduledFuture<?>) pool.submit((Callable<String>) task);
                case "once" ->
                    task.handle = pool.schedule((Callable<String>) task, nanos(task, 1), TimeUnit.NANOSECONDS);
                case "rate" -> task.handle =
                    pool.scheduleAtFixedRate(task, nanos(task, 1), nanos(task, 2), TimeUnit.NANOSECONDS);
                case "delay" -> task.handle =
                    pool.scheduleWithFixedDelay(task, nanos(task, 1), nanos(task, 2), TimeUnit.NANOSECONDS);
                default -> throw new AssertionError(task.kind[0]);
            }
            return "accepted";
        } catch (RejectedExecutionException shutDown) {
            return "rejected";
        } catch (IllegalArgumentException zeroPeriod) {
            return "invalid";
        }
    }

    private static long nanos(Task task, int word) {
        return task.kind[word].equals("forever") ? FOREVER : Long.parseLong(task.kind[word]) * TICK;
    }

    private interface Question {
        boolean ask(ScheduledFuture<?> handle);
    }

    private void withHandle(String text, String[] action, Question question) {
        ScheduledFuture<?> handle;
        synchronized (trace) {
            handle = tasks.get(Integer.parseInt(action[1])).handle;
        }
        String answer = handle == null ? "no handle" : String.valueOf(question.ask(handle));
        say(text + ": " + answer);
    }

    /** The numbers of the tasks, those without a handle as "?", those that were cancelled with "!". */
    private String drained(List<Runnable> drained) {
        List<String> names = new ArrayList<>();
        for (Runnable entry : drained) {
            String name = "?";
            for (Task task : tasks) {
                if (task.handle == entry) {
                    name = String.valueOf(task.number);
                }
            }
            names.add(name + (((Future<?>) entry).isCancelled() ? "!" : ""));
        }
        names.sort(null);
        return String.join(" ", names);
    }

    private String look() {
        StringJoiner line = new StringJoiner(" ");
        line.add(pool.isTerminated() ? "terminated" : pool.isTerminating() ? "terminating" : "running");
        line.add(pool.isShutdown() ? "closed" : "open");
        line.add("queued=" + pool.getQueue().size());
        line.add("active=" + pool.getActiveCount());
        line.add("completed=" + pool.getCompletedTaskCount());
        line.add("idle-runs=" + pool.idleRuns);
        line.add("threads=" + pool.getPoolSize());
        line.add("most-threads=" + pool.getLargestPoolSize());
        for (Task task : tasks) {
            if (task.handle != null) {
                line.add(task.number + ":" + state(task.handle));
            }
        }
        return line.toString();
    }

    private String state(ScheduledFuture<?> handle) {
        String queued = pool.getQueue().contains(handle) ? "+queued" : "";
        if (handle.isCancelled()) {
            return "cancelled" + queued;
        }
        if (handle.isDone()) {
            return "done" + queued;
        }
        long remaining = handle.getDelay(TimeUnit.NANOSECONDS);
        return "pending" + queued + "@" + (remaining > FAR ? "far" : String.valueOf(remaining / TICK));
    }

    private static String outcome(Task task) {
        if (task.handle == null) {
            return "unknown";
        }
        if (task.handle.isCancelled()) {
            return "cancelled";
        }
        if (!task.handle.isDone()) {
            return "pending";
        }
        try {
            return String.valueOf(task.handle.get());
        } catch (ExecutionException failed) {
            return "failed " + failed.getCause().getMessage();
        } catch (InterruptedException never) {
            throw new AssertionError(never);
        }
    }
}
