package judge

import "fmt"

// staleOwners is I5: a write that is replayed with the token of an earlier owner is refused, and changes
// nothing. A replay without an answer counts as refused, as long as it changed nothing.
//
// The one exception is part of the promise: the own result of a lost attempt replaces that once.
func (t *trial) staleOwners() {
	late := map[claimKey]bool{}
	for _, r := range t.h.Final.Done {
		if r.Late != 0 {
			late[claimKey{r.ID, r.Token}] = true
		}
	}
	for _, s := range t.h.Stale {
		who := fmt.Sprintf("task %s", s.TaskID)
		if s.What == "finish" && late[claimKey{s.TaskID, s.Token}] {
			continue
		}
		switch {
		case s.Changed:
			t.violate(StaleOwners, who, s.At, "a stale %s with token %d changed the row", s.What, s.Token)
		case !s.Refused && s.Error == "":
			t.violate(StaleOwners, who, s.At, "a stale %s with token %d was not refused", s.What, s.Token)
		}
	}
}
