// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mend corrects where nsqd's disk queues end, before they are opened; the directory's lock is held.
//
// A queue's record says in which file the next message goes, and is written every two seconds. A queue that comes back after a kill, and
// finds its file longer than the record says, goes on in the next file. Killed again before the record was written, it would do the
// same, in that same next file, from its beginning: over messages that were acknowledged. So the record is told of the last file there is.
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
		last := writeFile
		for ; exists(fmt.Sprintf("%s.diskqueue.%06d.dat", strings.TrimSuffix(path, ending), last+1)); last++ {
		}
		if last == writeFile {
			continue
		}
		// At 0 the queue finds that the file is longer, and goes on in the next.
		if err := os.WriteFile(path+".mended", fmt.Appendf(nil, "%d\n%d,%d\n%d,%d\n", depth, readFile, readPos, last, 0), 0o600); err != nil {
			return err
		}
		if err := os.Rename(path+".mended", path); err != nil {
			return err
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
