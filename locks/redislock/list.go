package redislock

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-scheduler/lockstep/locks/driver"
)

// List reads one page by the index: see list.lua.
func (s *session) List(ctx context.Context, prefix, after string, limit int) ([]driver.Info, error) {
	low := "[k" + prefix
	if after != "" && after >= prefix {
		low = "[k" + after + "!" // behind its holders, and not behind longer keys
	}
	answer, err := s.eval(ctx, listScript, nil, s.words(3, low, "(k"+prefix+"\xff", limit))
	if err != nil {
		return nil, s.failed("list", err)
	}
	var infos []driver.Info
	place := 0
	for i := 1; i+2 < len(answer); i += 3 {
		r, err := parse(answer[i+2].(string))
		rest, err2 := strconv.ParseInt(answer[i+1].(string), 10, 64)
		if err := cmp.Or(err, err2); err != nil {
			return nil, s.failed("list", err)
		}
		key, waits := strings.CutPrefix(answer[i].(string), " ")
		info := r.info(key)
		info.Remaining = time.Duration(rest) * time.Microsecond
		if place++; !waits {
			place = 0
		} else { // a place has its number where a holding has its token
			info.Token, info.Place = 0, place
		}
		infos = append(infos, info)
	}
	return infos, nil
}
