// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// mend corrects where nsqd's disk queues end, before they are opened; the directory's lock is held.
//
// A queue's record says in which file the next message goes, and is written every two seconds. A queue that comes back
// after a kill, and finds its file longer than the record says, goes on in the next file. Killed again before the
// record was written, it would do the same, in that same next file, from its beginning: over messages that were
// acknowledged. So the record is told of the last file there is; and of how many messages there are: a distributor
// gives no share to who says that nothing waits.
func mend(data string) error {
	const ending = ".diskqueue.meta.dat"
	records, err := filepath.Glob(filepath.Join(data, "*"+ending))
	if err != nil {
		return err
	}
	for _, path := range records {
		var depth, readFile, readPos, writeFile, writePos int64
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if _, err := fmt.Sscanf(string(text), "%d\n%d,%d\n%d,%d\n", &depth, &readFile, &readPos, &writeFile, &writePos); err != nil {
			continue // nsqd says what is wrong with it
		}
		name := func(n int64) string { return fmt.Sprintf("%s.diskqueue.%06d.dat", strings.TrimSuffix(path, ending), n) }
		last := writeFile
		for ; size(name(last+1)) >= 0; last++ {
		}
		if last > writeFile {
			writePos = 0 // then the queue finds that the file is longer, and goes on in the next
		} else if size(name(last)) <= writePos {
			continue
		}
		depth = 0
		for n := readFile; n <= last; n++ {
			from := readPos
			if n > readFile {
				from = 0
			}
			depth += messages(name(n), from)
		}
		if err := os.WriteFile(path+".mended", fmt.Appendf(nil, "%d\n%d,%d\n%d,%d\n", depth, readFile, readPos, last, writePos),
			0o600); err != nil {
			return err
		}
		if err := os.Rename(path+".mended", path); err != nil {
			return err
		}
	}
	return nil
}

// size of a file; -1: there is none.
func size(path string) int64 {
	about, err := os.Stat(path)
	if err != nil {
		return -1
	}
	return about.Size()
}

// messages that a file has from a place on: each has its length before it.
func messages(path string, from int64) (count int64) {
	file, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer file.Close()
	file.Seek(from, io.SeekStart)
	reader, length := bufio.NewReader(file), make([]byte, 4)
	for {
		if _, err := io.ReadFull(reader, length); err != nil {
			return count
		}
		if _, err := reader.Discard(int(binary.BigEndian.Uint32(length))); err != nil {
			return count
		}
		count++
	}
}
