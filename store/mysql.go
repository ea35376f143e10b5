package store

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockstep-scheduler/lockstep/internal/sqlkit"
)

// mysqlServer is MySQL or MariaDB.
type mysqlServer struct{}

func (mysqlServer) kit() sqlkit.Dialect { return sqlkit.MySQL{Isolation: "READ COMMITTED"} }

func (mysqlServer) adopt(*tx, *sql.DB) error { return nil }

func (mysqlServer) check(t *tx) error {
	var version string
	if found, err := t.One("SELECT VERSION()", nil, &version); err != nil || !found {
		return fmt.Errorf("reading the server's version: %w", err)
	}
	if err := checkVersion(version); err != nil {
		return err
	}
	_, err := t.Exec("SELECT 1 FROM lockstep_there_is_no_such_table")
	switch sqlkit.MySQLNumber(err) {
	case 0:
		return fmt.Errorf("the driver's errors are %T, and must be those of github.com/go-sql-driver/mysql: a deadlock and a broken statement could not be told apart", err)
	case 1046:
		return errors.New("the DSN names no database: write its name behind the slash, as in user:password@tcp(host:3306)/name")
	}
	settings := map[string]string{}
	err = each(t.rows(`SHOW SESSION VARIABLES WHERE Variable_name IN ('sql_mode', 'autocommit', 'sql_select_limit', 'sql_safe_updates',
		'tx_read_only', 'transaction_read_only', 'tx_isolation', 'transaction_isolation', 'max_allowed_packet')`), func(m *struct {
		Name  string `gorm:"column:Variable_name"`
		Value string `gorm:"column:Value"`
	}) {
		settings[m.Name] = m.Value
	})
	if err != nil {
		return fmt.Errorf("reading the session's settings: %w", err)
	}
	return checkSession(settings)
}

// checkSession names the setting of a session that the store cannot work with, and what to write.
func checkSession(settings map[string]string) error {
	mode := settings["sql_mode"]
	switch modes := strings.Split(mode, ","); {
	case !strings.Contains(mode, "STRICT_"):
		return fmt.Errorf("sql_mode %q is not strict, values would be cut silently: add STRICT_TRANS_TABLES to sql_mode", mode)
	case slices.Contains(modes, "EMPTY_STRING_IS_NULL"):
		return fmt.Errorf("sql_mode %q makes NULL of empty text: remove EMPTY_STRING_IS_NULL from sql_mode", mode)
	}
	for _, bad := range mysqlSettings {
		if settings[bad.name] == bad.value {
			return fmt.Errorf("%s is %s", bad.name, bad.why)
		}
	}
	if limit, err := strconv.ParseUint(settings["sql_select_limit"], 10, 64); err == nil && limit < 1<<32-1 {
		return fmt.Errorf("sql_select_limit is %d, and cuts answers silently: remove it from the DSN", limit)
	}
	if packet, err := strconv.Atoi(settings["max_allowed_packet"]); err == nil && packet < leastPacket {
		return fmt.Errorf("max_allowed_packet of the server is %d, and must be %d or more", packet, leastPacket)
	}
	return nil
}

const uncommitted = "READ-UNCOMMITTED, and would show what others roll back: write READ-COMMITTED in the DSN, or remove it"

// mysqlSettings are what a session must not have.
var mysqlSettings = []struct{ name, value, why string }{
	{"autocommit", "OFF", "off: remove autocommit=0 from the DSN"},
	{"sql_safe_updates", "ON", "on, and refuses statements without a key: remove sql_safe_updates from the DSN"},
	{"tx_read_only", "ON", "on: remove it from the DSN"},
	{"transaction_read_only", "ON", "on: remove it from the DSN"},
	{"tx_isolation", "READ-UNCOMMITTED", uncommitted},
	{"transaction_isolation", "READ-UNCOMMITTED", uncommitted},
}

// leastPacket is how much one statement of the store may take: sqlkit.MaxBytes, of which each may take two, and the rest.
const leastPacket = 3 * sqlkit.MaxBytes

// checkVersion reads "8.0.36-0ubuntu", "10.11.6-MariaDB-1" and "5.5.5-10.6.1-MariaDB".
func checkVersion(version string) error {
	least, name := [3]int{8, 0, 16}, "MySQL"
	text := version
	if strings.Contains(version, "MariaDB") {
		least, name = [3]int{10, 6, 0}, "MariaDB"
		text = strings.TrimPrefix(text, "5.5.5-")
	}
	var is [3]int
	if n, _ := fmt.Sscanf(text, "%d.%d.%d", &is[0], &is[1], &is[2]); n < 3 {
		return fmt.Errorf("server version %q cannot be read", version)
	}
	if slices.Compare(is[:], least[:]) < 0 {
		return fmt.Errorf("server version %q is too old: %s %d.%d.%d or later is needed", version, name, least[0], least[1], least[2])
	}
	return nil
}
