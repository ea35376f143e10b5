package config

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
	"github.com/lockstep-scheduler/lockstep/internal/trustedfile"
)

// maxTokens bounds a file of tokens: some thousand fit.
const maxTokens = 1 << 20

// ErrNoTokens is the error of [ParseTokens], among others, for a list without tokens, or a file with comments only.
var ErrNoTokens = errors.New("the file has no tokens")

// noTokens are the Errors of such a file.
type noTokens struct{ Errors }

// Unwrap lets errors.Is find ErrNoTokens, and errors.As the Errors.
func (e noTokens) Unwrap() []error { return []error{ErrNoTokens, e.Errors} }

// LoadTokens reads the file that server.auth.tokens_file names, a YAML list with one entry for each
// token:
//
//	# tokens of the API
//	- {name: ci, role: operator, sha256: 5e88…, expires: 2027-01-31T00:00:00Z}
//	- {name: mailer, role: worker, pools: [mail], sha256: a1b2…}
//
// expires is optional; pools are for the role worker, which needs some. A file without tokens is an error, since it is probably half written; so is one that other users
// can write. The error has an [Errors].
func LoadTokens(path string) ([]api.Token, error) {
	data, err := ReadTokens(path)
	if err != nil {
		return nil, err
	}
	return ParseTokens(path, data)
}

// ReadTokens returns the file's content for ParseTokens. The error is an [Errors].
func ReadTokens(path string) ([]byte, error) {
	file, err := trustedfile.Rule{Limit: maxTokens, Secret: true}.Read(path)
	if err == nil {
		return file.Data, nil
	}
	e := unreadable(err)
	if errors.Is(err, fs.ErrNotExist) {
		e.Hint = fmt.Sprintf("\"scheduler token create --name NAME --role ROLE --file %s\" creates it", path)
	}
	return nil, Errors{e}
}

// ParseTokens is LoadTokens of data. The error of a file without tokens is also [ErrNoTokens].
func ParseTokens(path string, data []byte) ([]api.Token, error) {
	r := &reader{env: lookup(nil), file: &source{name: path, size: len(data)}, doubtful: map[string]bool{}}
	var list []api.Token
	none := false
	if r.parse(r.file, data) {
		list = r.readTokens(r.file.root)
		root := deref(r.file.root)
		none = root.Kind == yaml.SequenceNode && len(root.Content) == 0
	}
	bad := r.report.errors()
	switch {
	case bad == nil:
		return list, nil
	case none, bad[0].Problem == emptyFile:
		return nil, noTokens{bad}
	}
	return nil, bad
}

var tokenKeys = schema[api.Token]{
	"name": field(func(r *reader, n *yaml.Node) (string, bool) {
		value, ok := r.raw(n)
		if ok && !naming.Pattern.MatchString(value) {
			r.fail(n, "is not a name", naming.Hint)
		}
		return value, ok
	}, func(t *api.Token) *string { return &t.Name }),
	"role": choiceField(api.Roles(), func(t *api.Token) *api.Role { return &t.Role }),
	"pools": func(r *reader, n *yaml.Node, t *api.Token) {
		t.Pools = r.texts(n, func(item *yaml.Node) (string, bool) {
			name, ok := r.raw(item)
			if ok && !naming.Pattern.MatchString(name) {
				r.fail(item, "is not the name of a pool", naming.Hint)
				return "", false
			}
			return name, ok
		})
	},
	"sha256": func(r *reader, n *yaml.Node, t *api.Token) {
		value, ok := r.raw(n)
		if !ok {
			return
		}
		sum, err := hex.DecodeString(value)
		if err != nil || len(sum) != len(t.SHA256) { // do not show it: it may be the secret itself
			r.fail(n, "is not a SHA-256", "64 hexadecimal digits; never put the token itself here")
			return
		}
		copy(t.SHA256[:], sum)
	},
	"expires": func(r *reader, n *yaml.Node, t *api.Token) {
		value, ok := r.raw(n)
		if !ok {
			return
		}
		var err error
		if t.Expires, err = time.Parse(time.RFC3339, value); err != nil {
			r.fail(n, quote(n)+" is not a time", "write it as in 2027-01-31T00:00:00Z, or leave it out")
		}
	},
}

func (r *reader) readTokens(root *yaml.Node) (list []api.Token) {
	if deref(root).Kind != yaml.SequenceNode {
		r.fail(root, "must be a list of tokens", "lines that start with \"- \"; \"scheduler token create --file\" writes them")
		return nil
	}
	first := map[[32]byte]*yaml.Node{}
	r.items(root, func(item *yaml.Node) {
		var token api.Token
		object(r, item, tokenKeys, &token)
		if deref(item).Kind != yaml.MappingNode {
			return
		}
		for _, key := range []string{"name", "role", "sha256"} {
			if r.find(item, key) == nil {
				r.fail(item, "has no "+key, "")
			}
		}
		switch pools := r.find(item, "pools"); {
		case token.Role == api.Worker && (pools == nil || len(deref(pools).Content) == 0):
			r.fail(item, "has the role worker and no pools", "name those that it may take tasks of, as in pools: [mail]")
		case token.Role != api.Worker && pools != nil && token.Role != "":
			r.fail(pools, "pools are for the role worker", "remove them, or write role: worker")
		}
		if old := first[token.SHA256]; old != nil {
			r.fail(item, fmt.Sprintf("has the sha256 of line %d", old.Line), "remove one of them")
		} else if token.SHA256 != [32]byte{} {
			first[token.SHA256] = item
		}
		list = append(list, token)
	})
	if len(list) == 0 {
		r.fail(root, "has no tokens, and every request would be refused", "\"scheduler token create --file\" adds one")
	}
	return list
}

// AddToken returns the text to append to a file of tokens, whose content is data, to add t. A file that is wrong, or to
// which a line cannot be appended, is an error.
func AddToken(path string, data []byte, t api.Token) ([]byte, error) {
	var addition []byte
	if len(bytes.TrimSpace(data)) > 0 {
		if _, err := ParseTokens(path, data); err != nil {
			return nil, err
		}
	}
	if len(data) > 0 && !bytes.HasSuffix(data, []byte("\n")) {
		addition = append(addition, '\n')
	}
	addition = append(addition, TokenLine(t)+"\n"...)
	if _, err := ParseTokens(path, slices.Concat(data, addition)); err != nil {
		return nil, errors.New(path + ": a line cannot be added: the list is not written line by line, each with \"- \" in front; add it by hand:\n" + TokenLine(t))
	}
	return addition, nil
}

// TokenLine is the entry of t in a file of tokens.
func TokenLine(t api.Token) string {
	expires := ""
	if !t.Expires.IsZero() {
		expires = ", expires: " + t.Expires.UTC().Format(time.RFC3339)
	}
	pools := ""
	if t.Role == api.Worker {
		pools = ", pools: [" + strings.Join(t.Pools, ", ") + "]"
	}
	return fmt.Sprintf("- {name: %q, role: %s%s, sha256: \"%x\"%s}", t.Name, t.Role, pools, t.SHA256, expires)
}
