//go:build unix && !linux

package exechandler

import (
	"os"
	"sync"
)

// chunk is how much is read at once.
const chunk = 32 << 10

// poll reads two pipes beside each other.
type poll struct{ files [2]*os.File }

func newPoll(first, second *os.File) (*poll, error) { return &poll{[2]*os.File{first, second}}, nil }

// each calls take with what is read, one call at a time, until both pipes have ended, or after stop.
func (p *poll) each(take func(number int, text []byte)) {
	var all sync.WaitGroup
	var taking sync.Mutex
	for i, f := range p.files {
		all.Go(func() {
			buf := make([]byte, chunk)
			for {
				n, err := f.Read(buf)
				if n > 0 {
					taking.Lock()
					take(i, buf[:n])
					taking.Unlock()
				}
				if err != nil {
					return
				}
			}
		})
	}
	all.Wait()
}

// stop ends each.
func (p *poll) stop() {
	for _, f := range p.files {
		f.Close()
	}
}
