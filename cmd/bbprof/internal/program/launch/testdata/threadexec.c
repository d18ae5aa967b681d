// The exec of a thread other than the first ends all others and takes the first one's number.
#include <pthread.h>
#include <unistd.h>
static void *run(void *path) { execl(path, path, (char *)0); return 0; }
int main(int argc, char **argv)
{
	pthread_t t;
	pthread_create(&t, 0, run, argv[1]);
	pthread_join(t, 0);
	return 1;
}
