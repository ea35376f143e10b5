package sqlite

import "testing"

// All that open a file in this process share what tells the end of a transaction; when all have closed it, nothing is left.
func TestWhoSharesTheEndsOfAFile(t *testing.T) {
	a, b, other := shareEnds("/a"), shareEnds("/a"), shareEnds("/b")
	if a.Ends != b.Ends || a.Ends == other.Ends {
		t.Error("they are not those of the file")
	}
	for _, e := range []*sharedEnds{a, b, other} {
		if len(ends.of) == 0 {
			t.Error("nothing is shared while the file is open")
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, left := ends.of["/a"]; left {
		t.Error("a file that is closed is left")
	}
	if again := shareEnds("/a"); again.Ends == a.Ends || again.Close() != nil {
		t.Error("it is the same after all have closed it")
	}
}
