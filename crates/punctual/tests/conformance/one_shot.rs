//! Tasks that run once.

use crate::support::{HOUR, STEP, finish, manual};

/// ST-012: the value comes out, and neither the body nor the return of a wait happens before the delay.
#[test]
fn a_delayed_value_is_neither_early_nor_lost() {
    let (pool, clock) = manual(1);
    let handle = pool.schedule(STEP, || 7).unwrap();
    clock.advance(STEP - std::time::Duration::from_nanos(1));
    assert!(!handle.is_done());
    assert!(handle.try_join().is_none());
    clock.advance(std::time::Duration::from_nanos(1));
    assert_eq!(handle.join().unwrap(), 7);
    drop(pool.schedule(HOUR, || ()).unwrap());
    finish(&pool);
}
