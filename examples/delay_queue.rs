//! How do I pass values between threads so that they arrive at a given time?

use punctual::DelayQueue;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let queue = Arc::new(DelayQueue::new());

    let kitchen = Arc::clone(&queue);
    let cook = std::thread::spawn(move || {
        for (dish, minutes) in [("soup", 3), ("steak", 6), ("salad", 1), ("cake", 9)] {
            kitchen.push(Duration::from_millis(10 * minutes), dish);
        }
        // A change of mind is as cheap as an order.
        let second_steak = kitchen.push(Duration::from_millis(50), "a second steak");
        kitchen.remove(second_steak).expect("it was not done yet")
    });
    println!("withdrawn: {}", cook.join().expect("the cook is fine"));

    // Exact order, never early; `take` blocks until something is due.
    for _ in 0..4 {
        println!("served: {}", queue.take()?);
    }
    println!("left: {:?}", queue.try_take());
    Ok(())
}
