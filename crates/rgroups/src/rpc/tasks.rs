//! Where handlers run: a few threads that poll many handlers. A handler that waits occupies no
//! thread, so handlers that call each other never wait for a free one; a handler that blocks its
//! thread holds up others once all threads are blocked. One that waits for something that nobody can
//! wake it for any more is dropped, as it would never go on.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

/// A handler at work.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The threads, started when there is something to do, and gone when this is dropped.
#[derive(Debug)]
pub(super) struct Tasks {
    pool: Arc<Pool>,
}

struct Pool {
    queue: Mutex<Queue>,
    ready: Condvar,
    most: usize,
}

#[derive(Default)]
struct Queue {
    ready: VecDeque<Arc<Running>>,
    threads: usize,
    idle: usize,
    closed: bool,
}

struct Running {
    pool: Arc<Pool>,
    /// Gone when it has ended.
    task: Mutex<Option<Task>>,
    /// It stands in the queue.
    queued: AtomicBool,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("most", &self.most).finish_non_exhaustive()
    }
}

impl Tasks {
    /// At most so many threads.
    pub(super) fn new(threads: usize) -> Self {
        let (queue, ready) = (Mutex::default(), Condvar::new());
        Self { pool: Arc::new(Pool { queue, ready, most: threads.max(1) }) }
    }

    /// Begins to run the task on this thread, which goes on when it waits for something; when it is
    /// woken it runs on one of the threads.
    pub(super) fn begin_here(&self, task: Task) {
        let (pool, task) = (Arc::clone(&self.pool), Mutex::new(Some(task)));
        Arc::new(Running { pool, task, queued: AtomicBool::new(false) }).poll();
    }

    /// Runs the task. If no thread can be had at all, it is dropped.
    pub(super) fn spawn(&self, task: Task) {
        let (pool, task) = (Arc::clone(&self.pool), Mutex::new(Some(task)));
        Arc::new(Running { pool, task, queued: AtomicBool::new(false) }).wake();
    }
}

impl Drop for Tasks {
    /// Handlers that are not being polled at this moment do not go on.
    fn drop(&mut self) {
        let mut queue = self.pool.lock();
        queue.closed = true;
        let rest = std::mem::take(&mut queue.ready);
        drop(queue);
        self.pool.ready.notify_all();
        drop(rest);
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(self: &Arc<Self>, running: Arc<Running>) {
        let mut queue = self.lock();
        if queue.closed {
            return;
        }
        queue.ready.push_back(running);
        if queue.ready.len() <= queue.idle || queue.threads >= self.most {
            drop(queue);
            return self.ready.notify_one();
        }
        queue.threads += 1;
        let pool = Arc::clone(self);
        let name = "rgroups handler".to_owned();
        if thread::Builder::new().name(name).spawn(move || pool.work()).is_err() {
            queue.threads -= 1;
            let left = if queue.threads == 0 { queue.ready.pop_back() } else { None };
            drop(queue);
            // Nobody would ever look at it.
            drop(left);
        }
    }

    fn work(self: Arc<Self>) {
        while let Some(running) = self.next() {
            running.queued.store(false, Ordering::Release);
            running.poll();
        }
    }

    fn next(&self) -> Option<Arc<Running>> {
        let mut queue = self.lock();
        loop {
            if queue.closed {
                return None;
            }
            if let Some(running) = queue.ready.pop_front() {
                return Some(running);
            }
            queue.idle += 1;
            queue = self.ready.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}

impl Running {
    fn poll(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        let mut slot = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(task) = slot.as_mut() else { return };
        let poll = || task.as_mut().poll(&mut Context::from_waker(&waker));
        // A handler that panics ends like one that returns, without an answer of its own.
        let ended = !matches!(catch_unwind(AssertUnwindSafe(poll)), Ok(Poll::Pending));
        let over = if ended { slot.take() } else { None };
        drop(slot);
        // Its values may panic too when they go.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(over)));
    }
}

impl Wake for Running {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            let pool = Arc::clone(&self.pool);
            pool.push(self);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::sync::{mpsc, oneshot};

    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn one_thread_runs_tasks_that_wait_for_each_other() {
        const LAST: usize = 99;
        let tasks = Tasks::new(1);
        let (done, ended) = std::sync::mpsc::channel();
        let (tell, told): (Vec<_>, Vec<_>) = (0..LAST).map(|_| oneshot::channel::<()>()).unzip();
        let mut told = told.into_iter();
        let mut tell = std::iter::once(None).chain(tell.into_iter().map(Some));
        // Each waits for the one that is started after it, but the last.
        for _ in 0..=LAST {
            let (wait, before) = (told.next(), tell.next().flatten());
            let done = done.clone();
            tasks.spawn(Box::pin(async move {
                if let Some(wait) = wait {
                    let _ = wait.await;
                }
                before.map(|b| b.send(()));
                let _ = done.send(());
            }));
        }
        (0..=LAST).for_each(|_| ended.recv_timeout(PATIENCE).expect("it ends"));
    }

    #[test]
    fn a_task_goes_on_when_it_is_woken() {
        let tasks = Tasks::new(1);
        let (send, mut receive) = mpsc::unbounded_channel();
        let (done, ended) = std::sync::mpsc::channel();
        tasks.spawn(Box::pin(async move {
            let mut sum = 0;
            while let Some(n) = receive.recv().await {
                sum += n;
            }
            let _ = done.send(sum);
        }));
        for n in 1..=100 {
            send.send(n).expect("it listens");
        }
        drop(send);
        assert_eq!(ended.recv_timeout(PATIENCE), Ok(5050));
    }

    #[test]
    fn a_task_that_is_begun_here_goes_on_elsewhere_when_it_had_to_wait() {
        let tasks = Tasks::new(1);
        let (tell, told) = oneshot::channel::<()>();
        let (done, ended) = std::sync::mpsc::channel();
        tasks.begin_here(Box::pin(async move {
            let _ = done.send(std::thread::current().id());
            let _ = told.await;
            let _ = done.send(std::thread::current().id());
        }));
        let here = std::thread::current().id();
        assert_eq!(ended.try_recv(), Ok(here), "it has begun before this goes on");
        tell.send(()).expect("it waits");
        assert_ne!(ended.recv_timeout(PATIENCE).expect("it ends"), here);
    }

    #[test]
    fn a_panic_ends_its_task_and_no_other() {
        let tasks = Tasks::new(1);
        let (done, ended) = std::sync::mpsc::channel();
        tasks.spawn(Box::pin(async { panic!("a handler's own fault") }));
        tasks.spawn(Box::pin(async move {
            let _ = done.send(());
        }));
        assert_eq!(ended.recv_timeout(PATIENCE), Ok(()));
    }

    #[test]
    fn tasks_that_wait_do_not_outlive_their_threads() {
        let tasks = Tasks::new(2);
        let (tell, told) = oneshot::channel::<()>();
        let (dropped, gone) = std::sync::mpsc::channel::<()>();
        tasks.spawn(Box::pin(async move {
            let _dropped = dropped;
            let _ = told.await;
        }));
        drop(tasks);
        drop(tell);
        assert!(
            gone.recv_timeout(PATIENCE)
                .is_err_and(|e| e == std::sync::mpsc::RecvTimeoutError::Disconnected)
        );
    }
}
