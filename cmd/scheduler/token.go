package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-scheduler/lockstep/api"
	"github.com/lockstep-scheduler/lockstep/config"
	"github.com/lockstep-scheduler/lockstep/internal/duration"
	"github.com/lockstep-scheduler/lockstep/internal/naming"
)

func newTokenCommand(a *app) *cobra.Command {
	return group("token", "Make and list the tokens that open the API", newTokenCreateCommand(a), newTokenListCommand(a))
}

// createdToken is what token create says to programs.
type createdToken struct {
	Token string `json:"token"`
	tokenRow
	Entry string `json:"entry"` // for the file
}

// tokenRow is a token as people see it: without what could be used.
type tokenRow struct {
	Name    string    `json:"name"`
	Role    api.Role  `json:"role"`
	Expires time.Time `json:"expires,omitzero"`
	SHA256  string    `json:"sha256"`
}

func rowOf(t api.Token) tokenRow {
	return tokenRow{t.Name, t.Role, t.Expires, fmt.Sprintf("%x", t.SHA256)}
}

func newTokenCreateCommand(a *app) *cobra.Command {
	var name, role, expires, file string
	cmd := &cobra.Command{
		Use:   "create --name NAME --role ROLE",
		Short: "Make a token, and print it this once",
		Long: "Make a token for the API from 32 random bytes. It is printed once, alone, on standard output; only its SHA-256 is kept.\n" +
			"With --file the entry is added to that file, which server.auth.tokens_file names; replicas take it over within seconds.\n" +
			"Without, the entry is printed on standard error, to be put there by you.\n\n" +
			"viewer reads; operator also enqueues, runs, cancels, retries, suspends, resumes and pauses; admin may do everything.\n" +
			"To replace a token, add a second one of the same name, give it to its user, and remove the line of the first.",
		Example: "  umask 077; scheduler token create --name ci --role operator --expires 90d --file tokens.yaml > ci.token",
		RunE: func(*cobra.Command, []string) error {
			var ends time.Time
			if !naming.Pattern.MatchString(name) {
				return usagef("--name %q: up to 64 of a-z A-Z 0-9 . _ -, the first a letter or digit", name)
			}
			if !slices.Contains(api.Roles(), api.Role(role)) {
				return usagef("--role %q: must be viewer, operator or admin", role)
			}
			if expires != "" {
				d, err := duration.Parse(expires)
				if err != nil || d <= 0 {
					return usagef("--expires %q: must be a duration such as 90d", expires)
				}
				ends = a.now().Add(d).UTC().Truncate(time.Second)
			}
			secret, token := api.NewToken(name, api.Role(role), ends)
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
				fmt.Fprintln(a.stderr, "This token is shown only now. Keep it where nobody else can read it:")
				_, err := fmt.Fprintln(w, secret)
				return err
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&name, "name", "", "`NAME` of its user, for the audit")
	flags.StringVar(&role, "role", "", "`ROLE`: viewer, operator or admin")
	flags.StringVar(&expires, "expires", "", "how long it is good, a `DURATION` such as 90d (default for ever)")
	flags.StringVar(&file, "file", "", "`FILE` to add the entry to; it is made if it is not there")
	_ = cmd.MarkFlagRequired("name")
	_ = cmd.MarkFlagRequired("role")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{"viewer", "operator", "admin"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// addToken adds an entry to a file, in one write at its end, so that none is lost when several are
// added at once. A new file is its owner's alone.
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
		Long:  "List the tokens of the file that server.auth.tokens_file names, or of --file. The tokens themselves are nowhere to be read.",
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
				cells := make([][]string, len(rows))
				for i, r := range rows {
					state := "good"
					if !r.Expires.IsZero() && !a.now().Before(r.Expires) {
						state = "expired"
					}
					cells[i] = []string{r.Name, string(r.Role), state, utc(r.Expires), r.SHA256[:12]}
				}
				return table(w, "NAME ROLE STATE EXPIRES SHA256", cells)
			})
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "`FILE` of tokens (default from the configuration)")
	return cmd
}
