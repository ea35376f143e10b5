package warden

import "sync"

// mailbox holds reports for a replica that is frozen; posting does not wait.
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
	message, _ := frame(r) // it is short, and always valid JSON
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, message)
	m.some.Signal()
}

// deliver sends the reports, until the replica is gone.
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
