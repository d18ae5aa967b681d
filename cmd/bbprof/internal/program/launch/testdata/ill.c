/* Programs that behave badly, by number, for tests of what runs programs: each ends in an unusual
   way, leaves processes behind, or abuses what it has inherited. None touches anything but itself,
   its descendants and its parent. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static char **args;

static void forever(void) { for (;;) pause(); }
static void nap(void) { usleep(20000); }
static int child(void (*f)(void))
{
	int pid = fork();
	if (pid == 0) {
		f();
		_exit(0);
	}
	return pid;
}
static void *thread(void *f) { ((void (*)(void))f)(); return 0; }
static void threads(int n, void (*f)(void))
{
	pthread_t t;
	while (n--)
		pthread_create(&t, 0, thread, (void *)f);
}
static void escaped(void) { setsid(); forever(); }
static void hop(void) /* a chain of processes, each of which lives for a moment, in a new session */
{
	for (;;) {
		if (fork())
			_exit(0);
		setsid();
		usleep(1000);
	}
}
static void hold(int resource, unsigned long n)
{
	struct rlimit l = {n, n};
	setrlimit(resource, &l);
}
static void none(int s) { (void)s; }
static void *lowest(void *p) { return (void *)((unsigned long)p & ~4095ul); }
static void *exits(void *p) { nap(); exit(0); return p; }

static void exit3(void) { exit(3); }
static void segv(void) { *(volatile int *)8 = 1; }
static void ill(void) { __asm__("ud2"); }
static void fpe(void) { volatile int z = 0; z = 1 / z; }
static void bus(void)
{
	int f = memfd_create("empty", 0);
	char *p = mmap(0, 4096, PROT_READ, MAP_SHARED, f, 0);
	*(volatile char *)p;
}
static void int3(void) { __asm__("int3"); }
static void trap(void) { raise(SIGTRAP); }
static void handledtrap(void) { signal(SIGTRAP, none); raise(SIGTRAP); __asm__("int3"); }
static void stop(void) { raise(SIGSTOP); }
static void tstp(void) { raise(SIGTSTP); }
static void ttin(void) { raise(SIGTTIN); }
static void killed(void) { raise(SIGKILL); }
static void alarmed(void) { alarm(1); forever(); }
static void firstends(void) { threads(1, nap); pthread_exit(0); }
static void firstendsforever(void) { threads(2, forever); pthread_exit(0); }
static void otherexits(void) { pthread_t t; pthread_create(&t, 0, exits, 0); forever(); }
static void execother(void) { execl("/bin/true", "true", (char *)0); }
static void execself(void) { args[1] = "exit3"; execv("/proc/self/exe", args); }
static void execnothing(void) { execl("/no/such/file", "x", (char *)0); }
static void *threadexecs(void *p) { execother(); return p; }
static void execinthread(void) { pthread_t t; pthread_create(&t, 0, threadexecs, 0); forever(); }
static void sleeper(void) { child(forever); }
static void daemon1(void) { child(escaped); }
static void forks2(void) { child(escaped); forever(); }
static void daemon2(void) { child(forks2); nap(); }
static void forks(void) { for (int i = 0; i < 50; i++) child(forever); }
static void manydaemons(void) { for (int i = 0; i < 50; i++) child(escaped); }
static void chain(void) { child(hop); nap(); }
static void chains(void) { for (int i = 0; i < 5; i++) child(hop); forever(); }
static void vforks(void) { if (!vfork()) _exit(0); }
static void vforkexecs(void) { if (!vfork()) { execl("/bin/sleep", "sleep", "1000", (char *)0); _exit(1); } }
static void sibling(void) { if (!syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0)) forever(); }
static void siblingexits(void) { if (!syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0)) _exit(5); nap(); }
static void siblings(void) { for (int i = 0; i < 20; i++) if (!syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0)) escaped(); }
static void ignores(void) { signal(SIGTERM, SIG_IGN); signal(SIGHUP, SIG_IGN); escaped(); }
static void deaf(void) { child(ignores); nap(); }
static void stopschild(void) { int p = child(escaped); nap(); kill(p, SIGSTOP); }
static void zombies(void) { for (int i = 0; i < 30; i++) child(nap); nap(); nap(); }
static void traceme(void) { ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGSTOP); }
static void tracedchild(void) { int p = child(traceme); waitpid(p, 0, WUNTRACED); }
static void tracesparent(void) { ptrace(PTRACE_ATTACH, getppid(), 0, 0); ptrace(PTRACE_TRACEME, 0, 0, 0); }
static void newpids(void) { unshare(CLONE_NEWPID); child(escaped); nap(); }
static void subreaps(void) { prctl(PR_SET_CHILD_SUBREAPER, 1); child(forks2); nap(); }
static void dieswithparent(void) { prctl(PR_SET_PDEATHSIG, SIGUSR1); child(escaped); }
static void threadstorm(void) { for (int i = 0; i < 20; i++) { threads(10, nap); nap(); } }
static void threadssleep(void) { threads(20, forever); }
static void newgroup(void) { int p = child(forever); setpgid(p, p); }
static void sigchlds(void) { for (int i = 0; i < 2000; i++) kill(getppid(), SIGCHLD); }
static void sigurgs(void) { for (int i = 0; i < 2000; i++) kill(getppid(), SIGURG); }
static void sigconts(void) { for (int i = 0; i < 2000; i++) kill(getppid(), SIGCONT); }
static void stopsparent(void) { kill(getppid(), SIGSTOP); forever(); }
static void stopsparentagain(void) { for (;;) { kill(getppid(), SIGSTOP); usleep(10000); } }
static void nofiles(void) { hold(RLIMIT_NOFILE, 0); open("/dev/null", O_RDONLY); }
static void nomemory(void) { hold(RLIMIT_AS, 4096); malloc(1 << 20); }
static void cpulimit(void) { hold(RLIMIT_CPU, 1); for (;;) ; }
static void coredumps(void) { hold(RLIMIT_CORE, RLIM_INFINITY); abort(); }
static void recurse(void) { volatile char page[4096]; page[0] = 1; recurse(); page[1] = 1; }
static void nices(void) { nice(19); }
static void moves(void) { cpu_set_t s; memset(&s, 0xff, sizeof s); sched_setaffinity(0, sizeof s, &s); }
static void idles(void) { struct sched_param p = {0}; sched_setscheduler(0, SCHED_IDLE, &p); }
static void locks(void) { mlockall(MCL_CURRENT); }
static void writes(void) { static char b[65536]; for (;;) if (write(1, b, sizeof b) < 0) exit(0); }
static void complains(void) { static char b[65536]; for (;;) if (write(2, b, sizeof b) < 0) exit(0); }
static void holdsoutput(void) { child(escaped); fputs("held\n", stderr); }
static void closes(void) { for (int i = 0; i < 100; i++) close(i); }
static void reads(void) { char c; while (read(0, &c, 1) > 0) ; }
static void nostack(void) { int here; munmap(lowest(&here), 1 << 16); here = 1; }
static void nocode(void) { mprotect(lowest((void *)nocode), 4096, PROT_NONE); }
static void rewrites(void) { mprotect(lowest((void *)rewrites), 8192, PROT_READ | PROT_WRITE | PROT_EXEC); memset((void *)rewrites, 0xcc, 16); rewrites(); }
static void undumpable(void) { prctl(PR_SET_DUMPABLE, 0); nap(); }
static void seccomped(void) { prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT); syscall(SYS_exit, 0); }
static void forbidden(void) { prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT); getpid(); syscall(SYS_getppid); }
static void renamed(void) { prctl(PR_SET_NAME, "a) R 1 (b c"); child(escaped); nap(); }
static void nowhere(void) { char d[] = "/tmp/illXXXXXX"; if (mkdtemp(d)) { chdir(d); rmdir(d); } }
static void timers(void) { struct itimerval v = {{0, 500}, {0, 500}}; signal(SIGALRM, none); setitimer(ITIMER_REAL, &v, 0); for (int i = 0; i < 200; i++) usleep(1000); }
static void jumps(void) { static jmp_buf b; static volatile int n; setjmp(b); if (n++ < 1000) longjmp(b, 1); }
static void persona(void) { personality(ADDR_COMPAT_LAYOUT | READ_IMPLIES_EXEC); child(escaped); }
static void nobody(void) { if (setgid(65534) || setuid(65534)) exit(0); child(escaped); nap(); }
static void spins(void) { for (;;) ; }
static void waits(void) { int p[2]; char c; if (!pipe(p)) read(p[0], &c, 1); }

static const struct { const char *name; void (*run)(void); } all[] = {
#define P(f) {#f, f}
	P(exit3), P(abort), P(segv), P(ill), P(fpe), P(bus), P(int3), P(trap), P(handledtrap), P(stop), P(tstp), P(ttin), P(killed), P(alarmed),
	P(firstends), P(firstendsforever), P(otherexits), P(execother), P(execself), P(execnothing), P(execinthread),
	P(sleeper), P(daemon1), P(daemon2), P(forks), P(manydaemons), P(chain), P(chains), P(vforks), P(vforkexecs), P(sibling), P(siblingexits), P(siblings),
	P(deaf), P(stopschild), P(zombies), P(traceme), P(tracedchild), P(tracesparent), P(newpids), P(subreaps), P(dieswithparent),
	P(threadstorm), P(threadssleep), P(newgroup), P(sigchlds), P(sigurgs), P(sigconts), P(stopsparent), P(stopsparentagain),
	P(nofiles), P(nomemory), P(cpulimit), P(coredumps), P(recurse), P(nices), P(moves), P(idles), P(locks),
	P(writes), P(complains), P(holdsoutput), P(closes), P(reads), P(nostack), P(nocode), P(rewrites), P(undumpable), P(seccomped), P(forbidden),
	P(renamed), P(nowhere), P(timers), P(jumps), P(persona), P(nobody), P(spins), P(waits),
};

int behave(const char *name)
{
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		if (!strcmp(all[i].name, name))
			all[i].run();
	return 0;
}

int main(int argc, char **argv)
{
	args = argv;
	if (argc > 1)
		return behave(argv[1]);
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		puts(all[i].name);
	return 0;
}
