/* Take a file of /dev/shm's name away, but for a hidden one: as unlink answers. */
int hide(const char *path);
