-- The indexes that MySQL has in its tables.

CREATE INDEX IF NOT EXISTS {leases}_of_session ON {leases} (session_id);

CREATE INDEX IF NOT EXISTS {places}_of_session ON {places} (session_id);
