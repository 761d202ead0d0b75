//! How an algorithm over [`Lanes`](super::Lanes) becomes one function that every level has a kernel of.
//!
//! An operation owns its kernels: it names the definition and the algorithm, and gets a function that takes the level to
//! run at. Nothing here names an operation.

/// An algorithm as a function with a level's target features, to stand in the level's place of a
/// [`PerLevel`](super::PerLevel) and nowhere else.
macro_rules! kernel {
    // Baseline x86-64 has SSE2; naming it adds nothing elsewhere.
    (portable, $($rest:tt)*) => {
        $crate::simd::kernel!(@ "sse2", $crate::simd::Portable, $($rest)*)
    };
    (avx2, $($rest:tt)*) => {
        $crate::simd::kernel!(@ "avx2,fma,f16c", $crate::simd::Avx2::assume_available(), $($rest)*)
    };
    (avx512, $($rest:tt)*) => {
        $crate::simd::kernel!(
            @ "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c",
            $crate::simd::Avx512::assume_available(),
            $($rest)*
        )
    };
    (avx512bf16, $($rest:tt)*) => {
        $crate::simd::kernel!(
            @ "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c",
            $crate::simd::Avx512::assume_available(),
            $($rest)*
        )
    };
    // The same level for algorithms over its dot product.
    (avx512bf16_dot, $($rest:tt)*) => {
        $crate::simd::kernel!(
            @ "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c",
            $crate::simd::Avx512Bf16::assume_available(),
            $($rest)*
        )
    };
    (@ $features:literal, $lanes:expr, $path:path, ($($arg:ident: $type:ty),*) $(-> $ret:ty)?) => {{
        #[allow(unsafe_code)]
        fn dispatched($($arg: $type),*) $(-> $ret)? {
            #[cfg_attr(target_arch = "x86_64", target_feature(enable = $features))]
            unsafe fn kernel($($arg: $type),*) $(-> $ret)? {
                #[allow(unused_unsafe)]
                // SAFETY: a level is active only where its features have been detected.
                let lanes = unsafe { $lanes };
                $path(lanes, $($arg),*)
            }
            // SAFETY: as above.
            unsafe { kernel($($arg),*) }
        }
        dispatched
    }};
}

/// A [`PerLevel`](super::PerLevel) of what this target has.
macro_rules! per_level {
    (scalar: $scalar:expr, portable: $portable:expr, avx2: $avx2:expr, avx512: $avx512:expr, avx512bf16: $bf16:expr $(,)?) => {
        $crate::simd::PerLevel {
            scalar: $scalar,
            portable: $portable,
            #[cfg(target_arch = "x86_64")]
            avx2: $avx2,
            #[cfg(target_arch = "x86_64")]
            avx512: $avx512,
            #[cfg(target_arch = "x86_64")]
            avx512bf16: $bf16,
        }
    };
}

/// Functions that take an [`ActiveLevel`](super::ActiveLevel) and run its kernel: the definition that is named first, or
/// the algorithm over lanes that is named second.
macro_rules! dispatch {
    ($(
        $(#[$meta:meta])*
        $visibility:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) = $scalar:path, $simd:path;
    )*) => {$(
        $(#[$meta])*
        $visibility fn $name(level: $crate::simd::ActiveLevel, $($arg: $type),*) {
            static KERNELS: $crate::simd::PerLevel<fn($($type),*)> = $crate::simd::per_level! {
                scalar: $scalar,
                portable: $crate::simd::kernel!(portable, $simd, ($($arg: $type),*)),
                avx2: $crate::simd::kernel!(avx2, $simd, ($($arg: $type),*)),
                avx512: $crate::simd::kernel!(avx512, $simd, ($($arg: $type),*)),
                avx512bf16: $crate::simd::kernel!(avx512bf16, $simd, ($($arg: $type),*)),
            };
            (KERNELS.at(level))($($arg),*);
        }
    )*};
}

pub(crate) use {dispatch, kernel, per_level};

/// An array of what an expression makes of each item. `array::map` takes a closure, which is compiled without a kernel's
/// features: unless the whole program is optimised when it is linked, it stays a call, and so do the instructions in it.
#[cfg(target_arch = "x86_64")]
macro_rules! array_of {
    ($item:ident in [$($value:expr),+ $(,)?]: $made:expr) => {
        [$({
            let $item = $value;
            $made
        }),+]
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use array_of;
