// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"bytes"
	"compress/flate"
	"io"

	"github.com/golang/snappy"
)

// pack compresses a connection in both directions from now on, as nsqd does: by snappy, or by deflate of a level.
// Stamps are then those of the
// read that had a block's last byte.
func (c *connection) pack(level int) error {
	// What came in the same read is compressed, too.
	early := append([]byte(nil), c.stream.data...)
	c.stream.drop()
	source := io.MultiReader(bytes.NewReader(early), reader(c.stream.plain))
	c.writing.Lock()
	if level == 0 {
		c.stream.packed, c.writer = snappy.NewReader(source), snappy.NewWriter(c.writer)
	} else {
		packer, err := flate.NewWriter(c.writer, level)
		if err != nil {
			c.writing.Unlock()
			return refuse("E_IDENTIFY_FAILED", "IDENTIFY failed %v", err)
		}
		c.stream.packed, c.writer = flate.NewReader(source), &deflater{packer}
	}
	c.writing.Unlock()
	c.fresh = true
	c.frame(frameResponse, ok)
	return c.flush()
}

// reader is a function that reads.
type reader func([]byte) (int, error)

func (r reader) Read(into []byte) (int, error) { return r(into) }

// deflater sends all that is written at once.
type deflater struct{ *flate.Writer }

func (d *deflater) Write(data []byte) (int, error) {
	n, err := d.Writer.Write(data)
	if err == nil {
		err = d.Flush()
	}
	return n, err
}
