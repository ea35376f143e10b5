package warden

import (
	"errors"
	"io"
	"log/slog"
	"syscall"
)

// inbox has the orders of the replica that were not handled yet. The keeper reads the socket before it compares
// deadlines: the warden may have been stopped meanwhile, and a renewal may have arrived.
//
//  1. watch waits until something can be read, and signals arrived
//  2. the keeper reads all that has arrived, and signals emptied
//  3. watch waits again; at the end of the stream it closes arrived
type inbox struct {
	stream  *stream
	log     *slog.Logger
	arrived chan struct{} // something can be read
	emptied chan struct{} // the keeper has read it
}

// incoming is an order with the files that came along.
type incoming struct {
	order
	files []int
	short bool // some files are missing: no descriptors were left
}

func newInbox(s *stream, log *slog.Logger) *inbox {
	return &inbox{stream: s, log: log, arrived: make(chan struct{}), emptied: make(chan struct{})}
}

// watch signals that something has arrived, once for each read, until the end of the stream.
func (i *inbox) watch() {
	defer close(i.arrived)
	for i.stream.await() == nil {
		i.arrived <- struct{}{}
		<-i.emptied
	}
}

// socketBuffer is more than the socket buffers: after a read of that much, all that had arrived at its begin was read.
const socketBuffer = 1 << 20

// read returns the orders that have arrived, and whether the replica is gone. A replica that sends malformed
// messages counts as gone.
func (i *inbox) read() (orders []incoming, gone bool) {
	for size := 0; size < socketBuffer; {
		n, err := i.stream.pull()
		for err == nil {
			var o *incoming
			if o, err = i.next(); o == nil {
				break
			}
			orders = append(orders, *o)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
				i.log.Error("malformed message from the replica; its commands are stopped", "error", err)
			}
			return orders, true
		}
		if n == 0 {
			break
		}
		size += n
	}
	return orders, false
}

// next is the first order in the buffer; nil if it is incomplete.
func (i *inbox) next() (*incoming, error) {
	body, err := i.stream.message()
	if body == nil || err != nil {
		return nil, err
	}
	o, err := readOrder(body)
	if err != nil || o.Start == nil {
		return &incoming{order: o}, err
	}
	n := 1
	if o.Start.Stdin {
		n++
	}
	if o.Start.Stderr {
		n++
	}
	if o.Start.Group {
		n++
	}
	files, short, err := i.stream.take(n)
	return &incoming{o, files, short}, err
}
