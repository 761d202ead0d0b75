//! Packing and tile layout against their formulas, element by element.

use trn3_numerics::{
    ArrayMut, ArrayView, Format, MxView, NumericsErrorKind, from_trn3_layout, pack_x4, to_trn3_layout, unpack_x4,
};

fn codes(count: usize, mask: u8) -> Vec<u8> {
    (0..count).map(|index| (index * 37 + index / 251) as u8 & mask).collect()
}

#[test]
fn test_pack_x4_puts_element_0_in_the_low_bits_and_back() {
    for count in [0, 4, 400, 300_000] {
        let elements = codes(count, 0xff);
        let mut words = vec![0u32; count / 4];
        let view = ArrayView::from_codes(Format::F8E4M3Fn, &elements, &[count]).expect("fits");
        pack_x4(&view, &mut words).expect("valid");
        for (index, &code) in elements.iter().enumerate() {
            assert_eq!((words[index / 4] >> (8 * (index % 4))) as u8, code);
        }
        let mut back = vec![0u8; count];
        unpack_x4(&words, ArrayMut::from_codes(Format::F8E4M3Fn, &mut back, &[count]).expect("fits")).expect("valid");
        assert_eq!(back, elements);
    }
}

#[test]
fn test_pack_x4_of_fp4_ignores_the_upper_half_of_a_byte() {
    let elements = codes(1024, 0xff);
    let mut words = vec![0u16; 256];
    pack_x4(&ArrayView::from_codes(Format::F4E2M1Fn, &elements, &[8, 128]).expect("fits"), &mut words).expect("valid");
    let mut back = vec![0u8; 1024];
    unpack_x4(&words, ArrayMut::from_codes(Format::F4E2M1Fn, &mut back, &[1024]).expect("fits")).expect("valid");
    for (index, &code) in elements.iter().enumerate() {
        assert_eq!((words[index / 4] >> (4 * (index % 4))) as u8 & 0xf, code & 0xf);
        assert_eq!(back[index], code & 0xf);
    }
}

#[test]
fn test_pack_x4_takes_any_strides() {
    let elements = codes(64, 0xff);
    // Columns of an [8, 8] array: element (row, column) lies at 8 * column + row.
    let view = ArrayView::strided(Format::F8E5M2, &elements, 0, &[8, 8], &[1, 8], false).expect("fits");
    let mut words = [0u32; 16];
    pack_x4(&view, &mut words).expect("valid");
    assert_eq!(words[0].to_le_bytes(), [elements[0], elements[8], elements[16], elements[24]]);
}

#[test]
fn test_trn3_layout_follows_its_formula_and_comes_back() {
    for contraction in [128, 256, 384, 512] {
        for free in [1, 5, 64] {
            let elements = codes(contraction * free, 0xff);
            let scales = codes(contraction / 32 * free, 0xff);
            let x = MxView {
                elements: ArrayView::from_codes(Format::F8E5M2, &elements, &[contraction, free]).expect("fits"),
                scales: ArrayView::from_codes(Format::F8E8M0Fnu, &scales, &[contraction / 32, free]).expect("fits"),
                axis: 0,
            };
            let mut data = vec![0u32; contraction / 4 * free];
            let count = if contraction == 128 { 4 } else { contraction / 4 };
            let mut rows = vec![0xaa_u8; count * free];
            to_trn3_layout(&x, &mut data, &mut rows).expect("valid");
            let mut used = vec![false; count];
            for block in 0..contraction / 32 {
                let row = 32 * (block / 4) + block % 4;
                used[row] = true;
                assert_eq!(rows[row * free..(row + 1) * free], scales[block * free..(block + 1) * free]);
                for i in 0..8 {
                    for j in 0..4 {
                        for column in 0..free {
                            let word = data[(8 * block + i) * free + column];
                            let k = 32 * block + 4 * i + j;
                            assert_eq!((word >> (8 * j)) as u8, elements[k * free + column]);
                        }
                    }
                }
            }
            for (row, used) in used.into_iter().enumerate() {
                assert!(used || rows[row * free..(row + 1) * free].iter().all(|&byte| byte == 0));
            }
            // Rows that version 0.1.0 added to a tile of one quadrant are not read.
            let mut older = rows.clone();
            older.resize(contraction / 4 * free, 0xbb);
            for rows in [rows, older] {
                let (mut back, mut back_scales) = (vec![0u8; elements.len()], vec![0u8; scales.len()]);
                from_trn3_layout(
                    &data,
                    &rows,
                    ArrayMut::from_codes(Format::F8E5M2, &mut back, &[contraction, free]).expect("fits"),
                    ArrayMut::from_codes(Format::F8E8M0Fnu, &mut back_scales, &[contraction / 32, free]).expect("fits"),
                )
                .expect("valid");
                assert_eq!((back, back_scales), (elements.clone(), scales.clone()));
            }
        }
    }
}

#[test]
fn test_trn3_layout_without_columns_is_empty() {
    let x = MxView {
        elements: ArrayView::from_codes(Format::F4E2M1Fn, &[], &[128, 0]).expect("fits"),
        scales: ArrayView::from_codes(Format::F8E8M0Fnu, &[], &[4, 0]).expect("fits"),
        axis: 0,
    };
    to_trn3_layout::<u16>(&x, &mut [], &mut []).expect("valid");
}

#[test]
fn test_layouts_refuse_what_does_not_fit() {
    let elements = codes(640 * 2, 0xff);
    let scales = codes(20 * 2, 0xff);
    let layout = |shape: [usize; 2], axis: usize| {
        let mut scale_shape = shape;
        scale_shape[axis] /= 32;
        let x = MxView {
            elements: ArrayView::from_codes(Format::F8E5M2, &elements[..shape[0] * shape[1]], &shape).expect("fits"),
            scales: ArrayView::from_codes(Format::F8E8M0Fnu, &scales[..scale_shape[0] * scale_shape[1]], &scale_shape)
                .expect("fits"),
            axis,
        };
        let words = shape[0] * shape[1] / 4;
        to_trn3_layout(&x, &mut vec![0u32; words], &mut vec![0u8; words]).expect_err("must be refused").to_string()
    };
    assert_eq!(
        layout([640, 2], 0),
        "elements has shape [640, 2]; one tile holds at most 512 along axis 0: split the array"
    );
    assert_eq!(layout([160, 2], 0), "elements has shape [160, 2]; axis 0 must be 128, 256, 384 or 512 long");
    assert_eq!(layout([0, 2], 0), "elements has shape [0, 2]; axis 0 must be 128, 256, 384 or 512 long");
    assert_eq!(layout([128, 0], 1), "axis is 1; a tile is blocked along axis 0");

    let fp8 = ArrayView::from_codes(Format::F8E5M2, &elements[..12], &[2, 6]).expect("fits");
    let error = pack_x4(&fp8, &mut [0u32; 3]).expect_err("six is no multiple of four");
    assert_eq!(error.to_string(), "elements has shape [2, 6]; its last axis must be a multiple of 4 long");
    let fp8 = ArrayView::from_codes(Format::F8E5M2, &elements[..12], &[12]).expect("fits");
    assert_eq!(pack_x4(&fp8, &mut [0u16; 3]).expect_err("fp8 needs u32").kind(), NumericsErrorKind::Dtype);
    assert_eq!(pack_x4(&fp8, &mut [0u32; 4]).expect_err("three words").kind(), NumericsErrorKind::Value);
    let bf16 = ArrayView::from_codes(Format::Bf16, &elements[..16], &[8]).expect("fits");
    assert_eq!(pack_x4(&bf16, &mut [0u32; 2]).expect_err("not an element format").kind(), NumericsErrorKind::Dtype);
}
