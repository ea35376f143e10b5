package ledger

// Matches reports whether a replica with these labels runs what wants those.
func Matches(wanted, labels map[string]string) bool {
	for k, v := range wanted {
		if has, is := labels[k]; !is || has != v { // an empty value is one, too
			return false
		}
	}
	return true
}

// RunsNowhere reports whether replicas live that take work, and none of them has the labels that are wanted. Where
// no replica lives, all work waits, and this does not say so.
func RunsNowhere(wanted map[string]string, peers []Peer) bool {
	live := false
	for _, p := range peers {
		if p.Dead || p.Draining {
			continue
		}
		if Matches(wanted, p.Labels) {
			return false
		}
		live = true
	}
	return live
}
