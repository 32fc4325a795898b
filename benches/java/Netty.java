import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/** Netty's wheel with ticks of a millisecond; everything runs on its one thread. Compiled only if the jar is there. */
public final class Netty implements Peer {
    private final HashedWheelTimer timer =
            new HashedWheelTimer(body -> Peer.thread(body, 1), 1, TimeUnit.MILLISECONDS, 8192);

    @Override
    public Object schedule(Runnable body, long delayNanos) {
        return timer.newTimeout(timeout -> body.run(), delayNanos, TimeUnit.NANOSECONDS);
    }

    @Override
    public boolean cancel(Object handle) {
        return ((Timeout) handle).cancel();
    }

    @Override
    public void every(Runnable body, long firstNanos, long periodNanos) {
        again(body, System.nanoTime() + firstNanos, periodNanos);
    }

    /** It has no periodic tasks: each run asks for the next. */
    private void again(Runnable body, long deadline, long periodNanos) {
        timer.newTimeout(timeout -> {
            body.run();
            again(body, deadline + periodNanos, periodNanos);
        }, Math.max(0, deadline - System.nanoTime()), TimeUnit.NANOSECONDS);
    }

    @Override
    public long ping(long value) throws InterruptedException {
        CountDownLatch latch = new CountDownLatch(1);
        long[] result = new long[1];
        timer.newTimeout(timeout -> {
            result[0] = value;
            latch.countDown();
        }, 0, TimeUnit.NANOSECONDS);
        latch.await();
        return result[0];
    }

    @Override
    public int pending() {
        return -1;
    }

    @Override
    public boolean isExact() {
        return false;
    }

    @Override
    public void stop() {
        timer.stop();
    }
}
