package warden

import "sync"

// mailbox holds reports that a frozen replica does not read; who posts one never waits.
type mailbox struct {
	mu   sync.Mutex
	some sync.Cond
	all  [][]byte
}

func newMailbox() *mailbox {
	m := &mailbox{}
	m.some.L = &m.mu
	return m
}

func (m *mailbox) post(r report) {
	message, err := frame(r)
	if err != nil {
		return // a report has nothing that JSON cannot hold
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, message)
	m.some.Signal()
}

// deliver sends what is posted, until the replica is gone.
func (m *mailbox) deliver(s *stream) {
	for {
		m.mu.Lock()
		for len(m.all) == 0 {
			m.some.Wait()
		}
		all := m.all
		m.all = nil
		m.mu.Unlock()
		for _, message := range all {
			if s.send(message) != nil {
				return
			}
		}
	}
}
