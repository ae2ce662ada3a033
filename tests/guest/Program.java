// SPDX-License-Identifier: MIT
// Program.java - a program in Java that behaves as guest.h says: its implicit null checks and safepoints are faults.
import java.io.RandomAccessFile;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.util.ArrayList;
import java.util.List;

public class Program {
	static MappedByteBuffer control;
	static int[] nothing;

	static void must(boolean what, String text) {
		if (what)
			return;
		byte[] bytes = (text + "\0").getBytes();
		for (int i = 0; i < bytes.length; i++)
			control.put(24 + i, bytes[i]);
		System.out.println(text);
		Runtime.getRuntime().halt(1);
	}

	static int work() {
		List<String> all = new ArrayList<>();
		int sum = 0;
		for (int i = 0; i < 2000; i++) {
			all.add("x" + i);
			sum += all.get(i).length();
			try {
				if (i % 500 == 3)
					sum += nothing[0];
			} catch (NullPointerException e) {
				sum++;
			}
		}
		return sum;
	}

	public static void main(String[] words) throws Exception {
		control = new RandomAccessFile(words[1], "rw").getChannel().map(FileChannel.MapMode.READ_WRITE, 0, 4096);
		control.order(ByteOrder.LITTLE_ENDIAN);
		control.putInt(12, (int) ProcessHandle.current().pid());
		do {
			int[] results = new int[3];
			Thread[] threads = new Thread[3];
			for (int i = 0; i < 3; i++) {
				final int n = i;
				threads[i] = new Thread(() -> results[n] = work());
				threads[i].start();
			}
			for (Thread t : threads)
				t.join();
			must(results[0] == results[1] && results[1] == results[2] && results[0] > 0, "a thread has another result");
			if (control.getInt(16) % 10 == 0)
				System.gc();
			control.putInt(16, control.getInt(16) + 1);
			Thread.sleep(3);
		} while (control.getInt(0) == 0);
		System.out.println("ok");
	}
}
