package giusto.coordination.upstream;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Enumeration;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.jar.JarOutputStream;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/**
 * Aims the classes of ZooKeeper's tests jar at our server: what they make of stock's peer, main class and election, they make of
 * ours, and what extends stock's extends ours.
 *
 * <p>It can also write our own {@code VoteQueue} with a bug in it, to show that the tests would see one.
 */
public final class Rewrite {

    private static final String QUORUM = "org/apache/zookeeper/server/quorum/";
    private static final Map<String, String> OURS = Map.of(
        QUORUM + "QuorumPeer", QUORUM + "UpstreamPeer",
        QUORUM + "QuorumPeerMain", QUORUM + "UpstreamPeerMain",
        QUORUM + "FastLeaderElection", QUORUM + "UpstreamElection");

    /** What was rewritten, by kind, to how often. */
    private final Map<String, Integer> counts = new TreeMap<>();

    private Rewrite() {
    }

    /**
     * @param args the tests jar; where to write the rewritten one; where to write the directory of the class with a bug
     */
    public static void main(String[] args) throws IOException {
        Rewrite rewrite = new Rewrite();
        try (JarFile jar = new JarFile(args[0]); JarOutputStream out = new JarOutputStream(Files.newOutputStream(Path.of(args[1])))) {
            for (Enumeration<JarEntry> all = jar.entries(); all.hasMoreElements();) {
                JarEntry entry = all.nextElement();
                byte[] bytes = jar.getInputStream(entry).readAllBytes();
                out.putNextEntry(new JarEntry(entry.getName()));
                out.write(entry.getName().endsWith(".class") ? rewrite.aim(bytes) : bytes);
            }
        }
        rewrite.counts.forEach((kind, count) -> System.out.println("rewritten: " + count + " " + kind));
        Path broken = Path.of(args[2]).resolve(QUORUM + "VoteQueue.class");
        Files.createDirectories(broken.getParent());
        try (InputStream in = Rewrite.class.getResourceAsStream("/" + QUORUM + "VoteQueue.class")) {
            Files.write(broken, loseVotes(in.readAllBytes()));
        }
    }

    private byte[] aim(byte[] bytes) {
        ClassReader reader = new ClassReader(bytes);
        ClassWriter writer = new ClassWriter(0);
        reader.accept(new ClassVisitor(Opcodes.ASM9, writer) {
            @Override
            public void visit(int version, int access, String name, String signature, String parent, String[] interfaces) {
                super.visit(version, access, name, signature, ours("extends", parent), interfaces);
            }

            @Override
            public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] exceptions) {
                return new Calls(super.visitMethod(access, name, descriptor, signature, exceptions));
            }
        }, 0);
        return writer.toByteArray();
    }

    private String ours(String kind, String name) {
        String to = OURS.get(name);
        if (to == null) {
            return name;
        }
        counts.merge(kind + " " + name.substring(QUORUM.length()), 1, Integer::sum);
        return to;
    }

    private final class Calls extends MethodVisitor {

        Calls(MethodVisitor next) {
            super(Opcodes.ASM9, next);
        }

        @Override
        public void visitTypeInsn(int code, String type) {
            super.visitTypeInsn(code, code == Opcodes.NEW ? ours("new", type) : type);
        }

        @Override
        public void visitMethodInsn(int code, String owner, String name, String descriptor, boolean isInterface) {
            boolean special = code == Opcodes.INVOKESPECIAL;
            // The one static method that makes a peer.
            boolean makes = code == Opcodes.INVOKESTATIC && name.equals("testingQuorumPeer");
            String to = special ? OURS.getOrDefault(owner, owner) : makes ? ours("new", owner) : owner;
            super.visitMethodInsn(code, to, name, descriptor, isInterface);
        }
    }

    /** Our queue of votes, but no vote ever arrives in it. */
    private static byte[] loseVotes(byte[] bytes) {
        ClassReader reader = new ClassReader(bytes);
        ClassWriter writer = new ClassWriter(0);
        reader.accept(new ClassVisitor(Opcodes.ASM9, writer) {
            @Override
            public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] exceptions) {
                MethodVisitor method = super.visitMethod(access, name, descriptor, signature, exceptions);
                if (!name.equals("offer") || (access & Opcodes.ACC_SYNTHETIC) != 0) {
                    return method;
                }
                method.visitCode();
                method.visitInsn(Opcodes.ICONST_1);
                method.visitInsn(Opcodes.IRETURN);
                method.visitMaxs(1, 2);
                method.visitEnd();
                return null;
            }
        }, 0);
        return writer.toByteArray();
    }
}
