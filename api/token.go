package api

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Token gives a role to clients that have its secret. It has the secret's SHA-256 only.
type Token struct {
	Name    string // of its user, for the audit; several tokens may share it
	Role    Role
	Pools   []string // of a Worker: that it may take tasks of, at least one
	SHA256  [sha256.Size]byte
	Expires time.Time // zero: never
}

// Secrets are at least 32 random bytes. Anything shorter in base64 is refused, even if its SHA-256 is in a list.
const (
	secretBytes  = 32
	minSecret    = (secretBytes*8 + 5) / 6
	maxSecret    = 512
	secretPrefix = "lockstep_" // lets scanners of source code find one
)

// NewToken generates a secret of 32 random bytes, and its token.
func NewToken(name string, role Role, expires time.Time) (secret string, t Token) {
	var random [secretBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	secret = secretPrefix + base64.RawURLEncoding.EncodeToString(random[:])
	return secret, Token{Name: name, Role: role, SHA256: sha256.Sum256([]byte(secret)), Expires: expires}
}

// Identity is a caller. Its name is empty without access control.
type Identity struct {
	Name  string
	Role  Role
	Pools []string // of a Worker; nil: any
}

// Access identifies the owners of secrets.
type Access interface {
	// Identify returns the owner of a secret. Any error refuses it: ErrExpired and jobs.ErrUnavailable are reported to
	// the caller, others are not.
	Identify(secret string) (Identity, error)
}

// ErrExpired: the token was valid once.
var ErrExpired = errors.New("the token has expired")

var errUnknownToken = errors.New("unknown token")

// Tokens is a list of tokens that can be replaced while requests are served. The zero Tokens refuses every secret.
type Tokens struct{ list atomic.Pointer[[]Token] }

var _ Access = (*Tokens)(nil)

// NewTokens returns a list of tokens.
func NewTokens(list ...Token) *Tokens {
	t := &Tokens{}
	t.Replace(list)
	return t
}

// Replace applies list from the next request on. The caller must not change list afterwards.
func (t *Tokens) Replace(list []Token) { t.list.Store(&list) }

// Len returns the number of unexpired tokens.
func (t *Tokens) Len() (n int) {
	now := time.Now()
	for _, token := range t.all() {
		if !token.expired(now) {
			n++
		}
	}
	return n
}

// Identify compares a secret with every token in constant time. An expired token is ErrExpired.
func (t *Tokens) Identify(secret string) (Identity, error) {
	if len(secret) < minSecret || len(secret) > maxSecret {
		return Identity{}, errUnknownToken
	}
	sum := sha256.Sum256([]byte(secret))
	list, found := t.all(), -1
	for i := range list {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], list[i].SHA256[:]), i, found)
	}
	if found < 0 {
		return Identity{}, errUnknownToken
	}
	token := list[found]
	if token.expired(time.Now()) {
		return Identity{}, fmt.Errorf("%w at %s", ErrExpired, token.Expires.UTC().Format(time.RFC3339))
	}
	return token.identity(), nil
}

// identity is the owner of the token. A Worker without pools may take tasks of none.
func (t Token) identity() Identity {
	who := Identity{Name: t.Name, Role: t.Role}
	if t.Role == Worker {
		who.Pools = append([]string{}, t.Pools...)
	}
	return who
}

func (t *Tokens) all() []Token {
	if list := t.list.Load(); list != nil {
		return *list
	}
	return nil
}

func (t Token) expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// Role is a caller's role. Each includes those before it, but for Worker, which is for itself: only Admin includes it.
type Role string

// The roles, weakest first.
const (
	Viewer   Role = "viewer"   // reads
	Operator Role = "operator" // also enqueues, runs, cancels, retries, suspends, resumes and pauses
	Admin    Role = "admin"    // everything: also drains, releases locks, and reads the audit
)

// Worker takes tasks of its pools, and ends them under its own sessions. It reads nothing else.
const Worker Role = "worker"

// anyone is the role of routes without data.
const anyone Role = "anyone"

var roles = []Role{Viewer, Operator, Admin}

// Roles returns the roles, weakest first, and Worker.
func Roles() []Role { return append(slices.Clone(roles), Worker) }

// covers reports whether r includes the role needed. An unknown role includes nothing, and is included by nothing.
func (r Role) covers(needed Role) bool {
	if needed == Worker {
		return r == Worker || r == Admin
	}
	need := slices.Index(roles, needed)
	return need >= 0 && slices.Index(roles, r) >= need
}
