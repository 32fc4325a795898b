use postgres::{Client, NoTls};
use punctual_testbed::Postgres;

use super::*;
use crate::{PostgresStore, Store};

/// Everything that the catalogue knows of the schema.
const CATALOGUE: &str = "
    SELECT concat_ws(' ', 'relation', c.relkind, c.relname, c.reloptions) FROM pg_class c
    WHERE c.relnamespace = 'punctual'::regnamespace
    UNION ALL
    SELECT concat_ws(' ', 'column', c.relname, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
        a.attidentity, a.attstorage, a.attcollation::regcollation, pg_get_expr(d.adbin, d.adrelid))
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE c.relnamespace = 'punctual'::regnamespace AND NOT a.attisdropped
    UNION ALL
    SELECT concat_ws(' ', 'index', pg_get_indexdef(i.indexrelid), i.indisvalid) FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relnamespace = 'punctual'::regnamespace
    UNION ALL
    SELECT concat_ws(' ', 'constraint', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint
    WHERE connamespace = 'punctual'::regnamespace
    UNION ALL
    SELECT concat_ws(' ', 'trigger', pg_get_triggerdef(t.oid), t.tgenabled) FROM pg_trigger t
    JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = 'punctual'::regnamespace AND NOT t.tgisinternal
    UNION ALL
    SELECT concat_ws(' ', 'view', c.relname, pg_get_viewdef(c.oid)) FROM pg_class c
    WHERE c.relnamespace = 'punctual'::regnamespace AND c.relkind = 'v'
    UNION ALL
    SELECT concat_ws(' ', 'sequence', s.seqrelid::regclass, s.seqstart, s.seqincrement, s.seqmax, s.seqmin, s.seqcycle)
    FROM pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid WHERE c.relnamespace = 'punctual'::regnamespace
    UNION ALL
    SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.pronamespace = 'punctual'::regnamespace
    UNION ALL
    SELECT concat_ws(' ', 'meta', name, CASE WHEN name = 'schema' THEN value END) FROM punctual.meta
    WHERE name <> 'timeline'";

/// A database of one's own, dropped by whoever made it.
struct Fresh(String);

impl Fresh {
    fn new() -> Self {
        Self(Postgres::shared().fresh_database())
    }

    fn sql(&self) -> Client {
        Client::connect(&self.0, NoTls).unwrap()
    }

    fn run(&self, script: &str) -> Result<(), String> {
        let said = |error: postgres::Error| error.as_db_error().map(ToString::to_string).unwrap();
        self.sql().batch_execute(script).map_err(said)
    }

    fn catalogue(&self) -> BTreeSet<String> {
        self.sql().query(CATALOGUE, &[]).unwrap().iter().map(|row| row.get(0)).collect()
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        Postgres::shared().drop_database(&self.0);
    }
}

#[test]
fn scripts_from_any_version_make_what_opening_makes() {
    let opened = Fresh::new();
    drop(PostgresStore::open(&opened.0).unwrap());
    let expected = opened.catalogue();
    assert!(expected.iter().any(|line| line.starts_with("index CREATE INDEX job_waiting")), "{expected:#?}");
    for from in 0..=known() {
        let by_hand = Fresh::new();
        by_hand.run(&script(0, from)).unwrap();
        // The rest by hand, too; or by a program that finds tables of that version.
        let by_program = Fresh::new();
        by_program.run(&script(0, from)).unwrap();
        by_hand.run(&PostgresStore::migrations_from(from).unwrap()).unwrap();
        drop(PostgresStore::open(&by_program.0).unwrap());
        for database in [by_hand, by_program] {
            assert_eq!(database.catalogue(), expected, "from version {from}");
        }
    }
}

#[test]
fn a_script_for_another_version_says_so_and_changes_nothing() {
    let database = Fresh::new();
    let said = database.run(&PostgresStore::migrations_from(2).unwrap()).unwrap_err();
    assert!(said.contains("the tables have version 0, and this script leads from version 2 to"), "{said}");
    database.run(&PostgresStore::migrations()).unwrap();
    let before = database.catalogue();
    let said = database.run(&PostgresStore::migrations()).unwrap_err();
    assert!(said.contains(&format!("the tables have version {}", known())), "{said}");
    database.run(&PostgresStore::migrations_from(known()).unwrap()).unwrap();
    assert_eq!(database.catalogue(), before);
}

/// Programs that start meanwhile find the tables finished; the script of somebody else finds that it comes too late.
#[test]
fn who_applies_migrations_by_hand_waits_for_others_who_do_and_they_wait_for_it() {
    let database = Fresh::new();
    let mut other = database.sql();
    other.batch_execute(&format!("BEGIN; {ALONE}")).unwrap();
    std::thread::scope(|scope| {
        let by_hand = scope.spawn(|| database.run(&PostgresStore::migrations()));
        let by_program = scope.spawn(|| PostgresStore::open(&database.0).map(drop));
        let waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
                       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        let mut watcher = database.sql();
        while watcher.query_one(waiting, &[]).unwrap().get::<_, i64>(0) < 2 {
            std::thread::yield_now();
        }
        other.batch_execute("COMMIT").unwrap();
        by_program.join().unwrap().unwrap();
        if let Err(said) = by_hand.join().unwrap() {
            assert!(said.contains("the tables have version"), "{said}");
        }
    });
    PostgresStore::open(&database.0).unwrap().identity().unwrap();
}

#[test]
fn names_of_roles_are_quoted() {
    let script = grants("o\"brien; DROP ROLE x");
    assert_eq!(script.matches(" TO \"o\"\"brien; DROP ROLE x\";\n").count(), script.lines().count());
}

/// If it fails: what stands on the left belongs into `migrations/names.txt`.
#[test]
fn the_list_of_names_is_what_the_migrations_make() {
    let database = Fresh::new();
    database.run(&PostgresStore::migrations()).unwrap();
    let rows = database.sql().query(FOUND, &[]).unwrap();
    let found: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
    let listed: Vec<&str> = NAMES.lines().collect();
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), listed);
}
