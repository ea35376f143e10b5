package ledger

import (
	"math"
	"strconv"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/limits"
)

// Progress is how far an attempt has come, written under its token.
type Progress struct {
	TaskID string
	Token  int64
	Done   float64 // 0 … 1
	Text   string  // the first limits.ProgressText bytes are kept
}

// Column is what a store keeps of it in one column: millionths, a blank, and the text. "" is no progress.
func (p Progress) Column() string {
	return strconv.Itoa(int(math.Round(min(max(p.Done, 0), 1)*million))) + " " + clip.Text(p.Text, limits.ProgressText)
}

const million = 1_000_000

// ReadProgress is the inverse of Column; nil if there is no progress.
func ReadProgress(column string) (done *float64, text string) {
	number, text, _ := strings.Cut(column, " ")
	n, err := strconv.Atoi(number)
	if err != nil {
		return nil, ""
	}
	return new(float64(n) / million), text
}
