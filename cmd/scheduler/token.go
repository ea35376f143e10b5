package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
)

func newTokenCommand(a *app) *cobra.Command {
	return group("token", "Create and list API tokens", newTokenCreateCommand(a), newTokenListCommand(a))
}

// createdToken is the output of token create.
type createdToken struct {
	Token string `json:"token"`
	tokenRow
	Entry string `json:"entry"` // its line in the file
}

// tokenRow describes a token without its secret.
type tokenRow struct {
	Name    string    `json:"name"`
	Role    api.Role  `json:"role"`
	Pools   []string  `json:"pools,omitempty"` // of a worker
	Expires time.Time `json:"expires,omitzero"`
	SHA256  string    `json:"sha256"`
}

func rowOf(t api.Token) tokenRow {
	return tokenRow{t.Name, t.Role, t.Pools, t.Expires, fmt.Sprintf("%x", t.SHA256)}
}

func newTokenCreateCommand(a *app) *cobra.Command {
	var name, role, expires, file string
	var pools []string
	cmd := &cobra.Command{
		Use:   "create --name NAME --role ROLE",
		Short: "Create a token, and print it once",
		Long: "Create an API token from 32 random bytes. It is printed once, alone, on standard output; only its SHA-256 is stored.\n" +
			"With --file the entry is added to that file, which server.auth.tokens_file names; replicas reload it within seconds.\n" +
			"Without --file the entry is printed on standard error.\n\n" +
			"viewer reads; operator also enqueues, runs, cancels, retries, suspends, resumes and pauses; admin may do everything.\n" +
			"worker takes tasks of its --pools over HTTP and ends them, and nothing else.\n" +
			"To replace a token, add a second one of the same name, hand it out, and remove the line of the first.",
		Example: "  umask 077; scheduler token create --name ci --role operator --expires 90d --file tokens.yaml > ci.token",
		RunE: func(*cobra.Command, []string) error {
			var ends time.Time
			if !naming.Pattern.MatchString(name) {
				return usagef("--name %q: %s", name, naming.Hint)
			}
			if !slices.Contains(api.Roles(), api.Role(role)) {
				return usagef("--role %q: must be viewer, operator, admin or worker", role)
			}
			switch {
			case api.Role(role) == api.Worker && len(pools) == 0:
				return usagef("--role worker needs --pools, as in --pools mail,reports")
			case api.Role(role) != api.Worker && len(pools) > 0:
				return usagef("--pools is for --role worker")
			}
			for _, pool := range pools {
				if !naming.Pattern.MatchString(pool) {
					return usagef("--pools %q: is not the name of a pool", pool)
				}
			}
			if expires != "" {
				d, err := duration.Parse(expires)
				if err != nil || d <= 0 {
					return usagef("--expires %q: must be a duration such as 90d", expires)
				}
				ends = a.now().Add(d).UTC().Truncate(time.Second)
			}
			secret, token := api.NewToken(name, api.Role(role), ends)
			token.Pools = pools
			if file != "" {
				if err := addToken(file, token); err != nil {
					return err
				}
			}
			return a.print(createdToken{secret, rowOf(token), config.TokenLine(token)}, func(w io.Writer) error {
				if file == "" {
					fmt.Fprintf(a.stderr, "Add this line to the file that server.auth.tokens_file names:\n%s\n", config.TokenLine(token))
				} else {
					fmt.Fprintf(a.stderr, "%s may use the API as %s, by %s.\n", name, role, file)
				}
				fmt.Fprintln(a.stderr, "This token is not shown again. Keep it secret:")
				return textLine(secret)(w)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&name, "name", "", "`NAME` of its user, for the audit")
	flags.StringVar(&role, "role", "", "`ROLE`: viewer, operator, admin or worker")
	flags.StringSliceVar(&pools, "pools", nil, "`POOLS` of the role worker, separated by commas")
	flags.StringVar(&expires, "expires", "", "validity, a `DURATION` such as 90d (default unlimited)")
	flags.StringVar(&file, "file", "", "`FILE` to add the entry to; created if missing")
	_ = cmd.MarkFlagRequired("name")
	_ = cmd.MarkFlagRequired("role")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{"viewer", "operator", "admin", "worker"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// addToken appends an entry in one write, so that concurrent additions lose none. A new file is readable by its owner
// only.
func addToken(path string, t api.Token) (err error) {
	var data []byte
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		if data, err = config.ReadTokens(path); err != nil {
			return err
		}
	}
	addition, err := config.AddToken(path, data, t)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(addition)
	return errors.Join(err, f.Sync(), f.Close())
}

func newTokenListCommand(a *app) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tokens of a file",
		Long:  "List the tokens of the file that server.auth.tokens_file names, or of --file. The secrets are not stored.",
		RunE: func(*cobra.Command, []string) error {
			if file == "" {
				c, err := a.loadConfig()
				if err != nil {
					return err
				}
				if file = c.Server.TokensFile; file == "" {
					return usagef("%s names no server.auth.tokens_file, and --file is not given", c.Path)
				}
			}
			list, err := config.LoadTokens(file)
			if err != nil {
				return err
			}
			rows := make([]tokenRow, len(list))
			for i, t := range list {
				rows[i] = rowOf(t)
			}
			return a.print(rows, func(w io.Writer) error {
				return table(w, "NAME ROLE POOLS STATE EXPIRES(UTC) SHA256", rows, func(r tokenRow) []string {
					state := "valid"
					if !r.Expires.IsZero() && !a.now().Before(r.Expires) {
						state = "expired"
					}
					return []string{r.Name, string(r.Role), strings.Join(r.Pools, ","), state, utc(r.Expires), r.SHA256[:12]}
				})
			})
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "`FILE` of tokens (default from the configuration)")
	return cmd
}
