//! What a thread asks of the kernel: its core, its priority, its CPU time.
//! The only file of `server` with foreign calls; all of them take plain values and keep no pointer.
#![allow(unsafe_code)]

/// Binds the calling thread to one CPU, by its number among those the process may use. Best effort: a container may
/// forbid it, and a thread that roams is only slower.
pub fn pin_to(core: usize) -> std::io::Result<()> {
    // SAFETY: an all-zero cpu_set_t is the empty set; both calls get its true size and a pointer that lives through them.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut allowed) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        let cpus: Vec<usize> = (0..libc::CPU_SETSIZE as usize).filter(|c| libc::CPU_ISSET(*c, &allowed)).collect();
        let Some(cpu) = cpus.get(core % cpus.len().max(1)) else { return Ok(()) };
        let mut wanted: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(*cpu, &mut wanted);
        if libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const wanted) != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Lowers the calling thread's priority (Linux keeps nice values per thread).
pub fn set_nice(nice: i32) -> std::io::Result<()> {
    // SAFETY: takes plain numbers; 0 is the calling thread.
    if unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

/// CPU time that the calling thread has used, in µs.
pub fn cpu_time_us() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec, which the call fills.
    if unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0 {
        return 0;
    }
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}
