package work

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/clip"
	"github.com/lockstep-scheduler/lockstep/internal/ledger"
	"github.com/lockstep-scheduler/lockstep/internal/unwrap"
	"github.com/lockstep-scheduler/lockstep/jobs"
	"github.com/lockstep-scheduler/lockstep/jobs/reason"
)

// unlisted says that an attempt which failed with err, and has the result r so far, is not retried, as its code is not among those of [jobs.Retries]; "" if it
// may be. It begins with the first line of err, since people see the reason first, and is the same whether retries are left or not, so that what fails in one
// way has one reason.
func (a *attempt) unlisted(err error, r ledger.Result) string {
	on := a.work.Retries.On
	coded, is := unwrap.As[jobs.Coded](a.work.Handler)
	if len(on) == 0 || !is || r.Code == reason.LockLost {
		return ""
	}
	code, what := jobs.FailureCode(err), ""
	status, exit := (*jobs.StatusError)(nil), (*jobs.ExitError)(nil)
	switch {
	case r.Code == reason.Timeout:
		_, _, code = coded.Codes()
		what = fmt.Sprintf("%s, which counts as %d and", r.Reason, code)
	case code == 0:
		if _, asked := jobs.RetryDelay(err); asked {
			return ""
		}
		what = "the failure has no code, and so"
	case errors.As(err, &exit) && exit.Code < 0:
		what = fmt.Sprintf("ended by a signal, which counts as %d and", code)
	case errors.As(err, &exit):
		what = fmt.Sprintf("exit code %d", code)
	case errors.As(err, &status) && status.NoAnswer:
		what = fmt.Sprintf("no answer, which counts as %d and", code)
	default:
		what = fmt.Sprintf("status %d", code)
	}
	if slices.Contains(on, code) {
		return ""
	}
	why := fmt.Sprintf("%s is not among what is retried: %s", what, listed(on))
	if r.Code == reason.Timeout {
		return why
	}
	first, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
	if first = clip.Text(strings.TrimSpace(first), mostSaid); first == "" || first == what {
		return why
	}
	return first + "; " + why
}

// mostSaid is how many bytes of an error's first line a reason has: half of what rows have room for, so that the codes fit behind it.
const mostSaid = 256

// mostListed is how many codes a reason names.
const mostListed = 10

func listed(on []int) string {
	var words []string
	for _, code := range on[:min(len(on), mostListed)] {
		words = append(words, fmt.Sprint(code))
	}
	if more := len(on) - len(words); more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, ", ")
}
