/* A stall ends when another thread accesses the memory. */
int trapline_held(void);
