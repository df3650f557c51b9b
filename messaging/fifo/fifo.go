// SPDX-License-Identifier: Apache-2.0

// Package fifo is a queue.
package fifo

// Queue is one whose memory follows its length.
type Queue[T any] struct {
	in   []T
	head int
}

// Len is how many are in it.
func (q *Queue[T]) Len() int { return len(q.in) - q.head }

// First is the one that leaves next; there must be one.
func (q *Queue[T]) First() *T { return &q.in[q.head] }

// Push puts one behind all others.
func (q *Queue[T]) Push(x T) { q.in = append(q.in, x) }

// Pop takes the first; there must be one.
func (q *Queue[T]) Pop() T {
	var none T
	x := q.in[q.head]
	q.in[q.head] = none
	q.head++
	switch {
	case q.head == len(q.in) && cap(q.in) <= 1024:
		q.in, q.head = q.in[:0], 0
	case q.head == len(q.in):
		q.in, q.head = nil, 0
	case q.head >= 1024 && q.head*2 >= len(q.in):
		q.in, q.head = append([]T(nil), q.in[q.head:]...), 0
	}
	return x
}
