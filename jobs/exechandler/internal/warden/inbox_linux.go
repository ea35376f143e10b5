package warden

import (
	"errors"
	"io"
	"log/slog"
	"syscall"
)

// inbox is what the replica has sent and nobody has read yet. The keeper reads it itself before it judges whose time
// is over: all that has arrived, as it may have been kept from its processor, and a renewal may lie there.
type inbox struct {
	stream  *stream
	log     *slog.Logger
	arrived chan struct{} // something lies there
	emptied chan struct{} // the keeper has read it
}

// incoming is an order with the files that came along.
type incoming struct {
	order
	files []int
	short bool // not all of its files came: no descriptors were left
}

func newInbox(s *stream, log *slog.Logger) *inbox {
	return &inbox{stream: s, log: log, arrived: make(chan struct{}), emptied: make(chan struct{})}
}

// watch says that something has arrived, once for each time that it was read, until nothing more will.
func (i *inbox) watch() {
	defer close(i.arrived)
	for i.stream.await() == nil {
		i.arrived <- struct{}{}
		<-i.emptied
	}
}

// heard is more than the socket holds: whoever reads as much has read all that had arrived when he began.
const heard = 1 << 20

// read returns the orders that have arrived, and whether the replica is gone. One that sends what nobody understands
// is as good as gone.
func (i *inbox) read() (orders []incoming, gone bool) {
	for size := 0; size < heard; {
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
				i.log.Error("the replica cannot be understood", "error", err)
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

// next is the first order of what was read; nil if it is not all there yet.
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
	files, err := i.stream.take(n)
	short := errors.Is(err, errShort)
	if short {
		err = nil // it is this order's trouble alone
	}
	return &incoming{o, files, short}, err
}
