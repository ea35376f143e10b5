package redislock

import (
	"context"
	"crypto/rand"
	"slices"

	"github.com/redis/go-redis/v9"
)

// proof shows the script that grants that the server is still the process that the state belongs to: it needs no INFO then.
// It is a random id in the text of the script. From Redis 7 on a cached script stays in the process that loaded it: neither a
// restart, nor a snapshot, nor a replica has it. So this holds:
//
//  1. The text with a new id is sent by one EVAL, which is not repeated: at most one process has it.
//  2. That EVAL compares the run_id with INFO, and only where it is that of the state it notes the id there.
//  3. Whatever begins a new generation takes the id out of the state.
//
// A script that finds its id in the state runs in the one process that has it, and the state has the run_id of that process.
// After SCRIPT FLUSH the script is missing, and the next call begins at 1.
type proof struct {
	id     string // "": none yet; unprovable: not on this server
	script *redis.Script
}

// unprovable is in the state in place of an id where scripts are no proof: the server is older than 7, or its run_id is unknown.
const unprovable = "none"

// proven is the proof whose id is in the state.
func proven(id any) proof {
	switch id, _ := id.(string); id {
	case "", unprovable:
		return proof{id, acquireScript}
	default:
		return proof{id, redis.NewScript(acquireWith(id))}
	}
}

// grant calls the script that grants.
func (s *session) grant(ctx context.Context, words []any) ([]any, error) {
	s.mu.Lock()
	p := s.proof
	s.mu.Unlock()
	if p.id == "" && s.proving.CompareAndSwap(false, true) { // the other calls go without a proof meanwhile
		defer s.proving.Store(false)
		return s.call(ctx, func() ([]any, error) { return s.prove(ctx, "", words) })
	}
	return s.eval(ctx, p.script, func() ([]any, error) { return s.prove(ctx, p.id, words) }, words)
}

// prove calls the script that grants with a new id, to be noted in place of one whose script is gone.
func (s *session) prove(ctx context.Context, gone string, words []any) ([]any, error) {
	words = slices.Clone(words)
	words[len(s.head)+goneArg] = gone
	return s.once(ctx, acquireWith(rand.Text()), words)
}

// once calls the script of a text, which is not sent again when it gets no answer.
func (s *session) once(ctx context.Context, text string, words []any) ([]any, error) {
	words[0], words[1] = "eval", text
	cmd := single{redis.NewCmd(ctx, words...)}
	cmd.SetFirstKeyPos(3)
	_ = s.prompt.Process(ctx, cmd)
	return cmd.Slice()
}

// single is a command that the client does not send again when it gets no answer.
type single struct{ *redis.Cmd }

func (single) NoRetry() bool { return true }

// adopt takes the proof that the state of a generation has.
func (s *session) adopt(gen, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gen == gen && s.proof.id != id {
		s.proof = proven(id)
	}
}
