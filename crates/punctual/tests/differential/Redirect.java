package java.util.concurrent;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Makes the JDK's ScheduledThreadPoolExecutor read VirtualTime instead of System.
 *
 * <p>The class files are those of the JDK that runs this, instruction for instruction. In their constant pools the
 * one reference "nanoTime of java/lang/System" becomes "nanoTime of java/util/concurrent/VirtualTime"; nothing else
 * is touched. They are written to the directory that patches java.base, where the virtual machine finds them when
 * it loads the class, which it has not done before.
 */
final class Redirect {
    private static final String PACKAGE = "java/util/concurrent/";
    private static final String[] READERS = {
        "ScheduledThreadPoolExecutor", "ScheduledThreadPoolExecutor$ScheduledFutureTask",
    };

    private static final int TEXT = 1;
    private static final int LONG = 5;
    private static final int DOUBLE = 6;
    private static final int CLASS = 7;
    private static final int METHOD = 10;

    private Redirect() {}

    static void into(Path patch) throws IOException {
        for (String name : READERS) {
            String file = PACKAGE + name + ".class";
            try (InputStream original = Object.class.getModule().getResourceAsStream(file)) {
                byte[] redirected = redirect(original.readAllBytes());
                if (redirected == null) {
                    throw new IOException(name + " does not read System.nanoTime");
                }
                Files.write(patch.resolve(file), redirected);
            }
        }
    }

    /** Null if there is nothing to redirect. */
    private static byte[] redirect(byte[] original) throws IOException {
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(original));
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        out.writeLong(in.readLong()); // magic, version
        int count = in.readUnsignedShort();
        out.writeShort(count + 2);
        byte[][] entries = new byte[count][];
        for (int i = 1; i < count; i++) {
            entries[i] = entry(in);
            if (entries[i][0] == LONG || entries[i][0] == DOUBLE) {
                i++; // takes two places
            }
        }
        boolean found = false;
        for (byte[] entry : entries) {
            if (entry != null && entry[0] == METHOD && isNanoTime(entries, entry)) {
                putShort(entry, 1, count + 1);
                found = true;
            }
        }
        for (byte[] entry : entries) {
            if (entry != null) {
                out.write(entry);
            }
        }
        out.writeByte(TEXT);
        out.writeUTF(PACKAGE + "VirtualTime");
        out.writeByte(CLASS);
        out.writeShort(count);
        out.write(in.readAllBytes());
        return found ? bytes.toByteArray() : null;
    }

    /** One entry of a constant pool, with its tag. */
    private static byte[] entry(DataInputStream in) throws IOException {
        int tag = in.readUnsignedByte();
        if (tag == TEXT) {
            int length = in.readUnsignedShort();
            byte[] entry = new byte[3 + length];
            putShort(entry, 1, length);
            in.readFully(entry, 3, length);
            entry[0] = TEXT;
            return entry;
        }
        int length = switch (tag) {
            case CLASS, 8, 16, 19, 20 -> 2;
            case 15 -> 3;
            case 3, 4, 9, METHOD, 11, 12, 17, 18 -> 4;
            case LONG, DOUBLE -> 8;
            default -> throw new IOException("constant pool tag " + tag);
        };
        byte[] entry = new byte[1 + length];
        entry[0] = (byte) tag;
        in.readFully(entry, 1, length);
        return entry;
    }

    private static boolean isNanoTime(byte[][] entries, byte[] method) {
        byte[] owner = entries[getShort(method, 1)];
        byte[] signature = entries[getShort(method, 3)];
        return text(entries[getShort(owner, 1)]).equals("java/lang/System")
                && text(entries[getShort(signature, 1)]).equals("nanoTime");
    }

    private static String text(byte[] entry) {
        return new String(entry, 3, entry.length - 3, StandardCharsets.UTF_8);
    }

    private static int getShort(byte[] bytes, int at) {
        return (bytes[at] & 0xff) << 8 | bytes[at + 1] & 0xff;
    }

    private static void putShort(byte[] bytes, int at, int value) {
        bytes[at] = (byte) (value >> 8);
        bytes[at + 1] = (byte) value;
    }
}
