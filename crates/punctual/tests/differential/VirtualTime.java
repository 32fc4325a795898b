package java.util.concurrent;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Time for one ScheduledThreadPoolExecutor: it stands still until it is moved, and knows when the pool is at rest.
 *
 * <p>Three things are put in place of the machine's. {@link #nanoTime} is what the class reads instead of
 * System.nanoTime (see Redirect). The condition on which its queue lets workers wait is replaced by one with the
 * same contract, on the same lock, that waits for this time to pass. And the workers are made here, so that it is
 * known which of them exist and which of them wait.
 *
 * <p>The pool is at rest when every worker waits and none has a reason to stop waiting: a signal, an interrupt or
 * an instant that has come. All of this is guarded by the queue's own lock. Whoever gives a worker such a reason
 * notes it at once, in its name, so a worker that has not noticed yet is not taken for one at rest.
 */
public final class VirtualTime implements Condition, ThreadFactory {
    /** Real time after which a pool that does not come to rest is given up. */
    private static final long PATIENCE = TimeUnit.SECONDS.toNanos(60);

    private static volatile long now;

    private final ReentrantLock lock;
    /** Signalled when a worker has a reason to go on. */
    private final Condition released;
    /** Signalled when a worker begins to wait, or ends. */
    private final Condition changed;
    private final List<Worker> workers = new ArrayList<>();
    private long nextTicket;

    private VirtualTime(ReentrantLock lock) {
        this.lock = lock;
        released = lock.newCondition();
        changed = lock.newCondition();
    }

    /** What the executor's classes call in place of System.nanoTime. */
    public static long nanoTime() {
        return now;
    }

    /** Sets time to zero and puts {@code pool}, which has not been used yet, under it. */
    public static VirtualTime govern(ScheduledThreadPoolExecutor pool) throws ReflectiveOperationException {
        Object queue = pool.getQueue();
        Field lock = queue.getClass().getDeclaredField("lock");
        Field available = queue.getClass().getDeclaredField("available");
        lock.setAccessible(true);
        available.setAccessible(true);
        VirtualTime time = new VirtualTime((ReentrantLock) lock.get(queue));
        available.set(queue, time);
        pool.setThreadFactory(time);
        now = 0;
        return time;
    }

    /** Moves time at once, without waiting for anybody. */
    public void jump(long nanos) {
        lock.lock();
        try {
            now += nanos;
            for (Worker worker : workers) {
                if (worker.until <= now) {
                    worker.waits = false;
                }
            }
            released.signalAll();
        } finally {
            lock.unlock();
        }
    }

    /** Waits until the pool is at rest. */
    public void settle() throws InterruptedException {
        lock.lock();
        try {
            long patience = PATIENCE;
            while (!workers.stream().allMatch(worker -> worker.waits)) {
                if (patience <= 0) {
                    throw new IllegalStateException("the pool does not come to rest");
                }
                patience = changed.awaitNanos(patience);
            }
        } finally {
            lock.unlock();
        }
    }

    /** A thread counts from now on: nothing is at rest while it is on its way to its first wait. */
    @Override
    public Thread newThread(Runnable loop) {
        Worker worker = new Worker(loop);
        lock.lock();
        try {
            workers.add(worker);
        } finally {
            lock.unlock();
        }
        return worker;
    }

    private final class Worker extends Thread {
        /** Waits, and has no reason not to. This and what follows are guarded by the lock. */
        private boolean waits;
        private long until;
        private long ticket;

        Worker(Runnable loop) {
            super(loop);
            setDaemon(true);
        }

        @Override
        public void run() {
            try {
                super.run();
            } finally {
                lock.lock();
                try {
                    workers.remove(this);
                    changed.signalAll();
                } finally {
                    lock.unlock();
                }
            }
        }

        @Override
        public void interrupt() {
            lock.lock();
            try {
                waits = false;
                super.interrupt();
            } finally {
                lock.unlock();
            }
        }
    }

    private void await(long until) throws InterruptedException {
        Worker me = (Worker) Thread.currentThread();
        me.until = until;
        me.ticket = nextTicket++;
        me.waits = until > now;
        changed.signalAll();
        try {
            while (me.waits) {
                released.await();
            }
        } finally {
            me.waits = false;
        }
    }

    @Override
    public void await() throws InterruptedException {
        await(Long.MAX_VALUE);
    }

    @Override
    public long awaitNanos(long nanos) throws InterruptedException {
        long until = nanos > Long.MAX_VALUE - now ? Long.MAX_VALUE : now + nanos;
        await(until);
        return until - now;
    }

    /** Releases the worker that has waited longest, as the real condition does. */
    @Override
    public void signal() {
        Worker first = null;
        for (Worker worker : workers) {
            if (worker.waits && (first == null || worker.ticket < first.ticket)) {
                first = worker;
            }
        }
        if (first != null) {
            first.waits = false;
            released.signalAll();
        }
    }

    @Override
    public void signalAll() {
        workers.forEach(worker -> worker.waits = false);
        released.signalAll();
    }

    @Override
    public boolean await(long time, TimeUnit unit) throws InterruptedException {
        return awaitNanos(unit.toNanos(time)) > 0;
    }

    @Override
    public void awaitUninterruptibly() {
        throw new UnsupportedOperationException("the executor does not call this");
    }

    @Override
    public boolean awaitUntil(Date deadline) {
        throw new UnsupportedOperationException("the executor does not call this");
    }
}
