package warden

// mailbox holds reports for a replica that is frozen; posting does not wait. It has room for one list of all of them, to
// which the keeper alone adds.
type mailbox chan []report

func newMailbox() mailbox { return make(mailbox, 1) }

func (m mailbox) post(r report) {
	select {
	case waiting := <-m:
		m <- append(waiting, r)
	default:
		m <- []report{r}
	}
}

// deliver sends the reports, until the replica is gone.
func (m mailbox) deliver(s *stream) {
	for reports := range m {
		for _, r := range reports {
			message, _ := frame(r) // it is short, and always valid JSON
			if s.send(message) != nil {
				return
			}
		}
	}
}
