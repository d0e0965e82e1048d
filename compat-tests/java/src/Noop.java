public class Noop { public static void main(String[] a) { } }
